"""The models that can be trained: what each is called, what it trains on, how to build it.

A model is one file, `models/<name>.py`, with `build()` and `optimizer()`, and one entry in
`models/registry.yaml`. The registry is read without TensorFlow; the file only when it trains.
"""

import importlib.util
from functools import cache
from pathlib import Path
from types import ModuleType

import yaml
from pydantic import Field, TypeAdapter, ValidationError

from nodewise.cells import Frozen, Name
from nodewise.errors import UserError
from nodewise.misfits import first_misfit

MODELS_DIR = Path("models")


class ModelEntry(Frozen):
    """One entry of the registry; `trainable` and `total` are numbers of parameters."""

    title: str
    dataset: Name
    trainable: int = Field(ge=1)
    total: int = Field(ge=1)


@cache
def registry() -> dict[str, ModelEntry]:
    """Return every model by name.

    Raises:
        UserError: `models/registry.yaml` is missing or misfit; the line names the entry.
    """
    path = MODELS_DIR / "registry.yaml"
    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read; run this in the project's folder") from error
    try:
        entries = TypeAdapter(dict[Name, ModelEntry]).validate_python(tree)
    except ValidationError as error:
        raise UserError(f"{path}: {first_misfit(error)}") from error
    for name in entries:
        if not (MODELS_DIR / f"{name}.py").is_file():
            raise UserError(f"{path}: {name}: there is no {MODELS_DIR / name}.py")
    return entries


def load(name: str) -> ModuleType:
    """Import `models/<name>.py`, which offers `build() -> keras.Model` and `optimizer()`."""
    path = MODELS_DIR / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"nodewise_model_{name}", path)
    if spec is None or spec.loader is None:
        raise UserError(f"{path}: is not a Python file")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
