"""What is known of a model without building it: its layers, and what they add up to.

`nodewise describe-model` writes it to `data/models/<name>.json`.
"""

from collections.abc import Collection
from functools import cache
from pathlib import Path

from nodewise.core.errors import UserError
from nodewise.core.schema import read_json
from nodewise.models.registry import registry
from nodewise.results.model_description import Architecture

DESCRIPTIONS = Path("data/models")
SMALL_FLOPS = 100_000_000
"""Operations of training an example up to which the workflow measures a model's noise scale."""


@cache
def facts(name: str) -> Architecture:
    """Return what is known of a model of the registry; see `read_facts`."""
    return read_facts(DESCRIPTIONS, name)


def read_facts(folder: Path, name: str) -> Architecture:
    """Read `folder/<name>.json`.

    Raises:
        UserError: the file is missing or invalid, or describes another model.
    """
    path = folder / f"{name}.json"
    command = f"nodewise describe-model {name} --out {path}"
    if not path.is_file():
        raise UserError(f"{path}: the model {name} is not described; run: {command}")
    found = read_json(Architecture, path, f"run: {command}")
    if found.model != name:
        raise UserError(f"{path}: describes {found.model}, not {name}; run: {command}")
    return found


def read_all_facts(folder: Path, trained: Collection[str]) -> dict[str, Architecture]:
    """Read what is known of every model of the registry that was trained or is described.

    Raises:
        UserError: the file of a model of `trained` is missing; or one is invalid.
    """
    return {
        name: read_facts(folder, name)
        for name in registry()
        if name in trained or (folder / f"{name}.json").is_file()
    }


def is_small(name: str) -> bool:
    """Tell whether the workflow measures the noise scale of a model."""
    return facts(name).training_flops_per_example <= SMALL_FLOPS
