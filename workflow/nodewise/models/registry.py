"""The registry of models: their names and datasets, and how to build them.

A model is one file, `models/<name>.py`. Its `METADATA` is read without running the file. The file
contains

- `METADATA = {...}`: a literal dictionary with the fields of `ModelEntry`;
- `build() -> keras.Model`: returns a compiled model for batches of preprocessed examples;
- `preprocess(x) -> x`, if the dataset stores examples in another form: preprocesses a batch;
- `augment(x) -> x`, if training uses augmentation: changes a preprocessed batch at random;
- `load_pretrained(model, file)`, if the model starts from pretrained weights: loads them into a
  built model.
"""

import ast
from functools import cache
from pathlib import Path
from types import ModuleType

from pydantic import TypeAdapter, ValidationError

from nodewise.core.cell import Cell, Frozen, Name
from nodewise.core.errors import UserError
from nodewise.core.schema import first_error, read_bytes
from nodewise.core.user_function import code_sha256, import_file, source_files

MODELS_DIR = Path("models")


class ModelEntry(Frozen):
    """The `METADATA` of a model file: facts that cannot be computed. For all others see `facts`.

    Attributes:
        title: the title of the model.
        dataset: a dataset of `data/datasets.yaml`.
        weights: the pretrained weights that the model starts from (`data/weights.yaml`), if any.
    """

    title: str
    dataset: Name
    weights: Name | None = None


def check_project() -> None:
    """Check that the current folder is a clone of the project, which contains the models.

    Raises:
        UserError: it is not.
    """
    if not registry():
        raise UserError(
            f"{MODELS_DIR}: there is no such folder; run this in a clone of the project, or name a "
            "model and data of your own (path/file.py:function)"
        )


@cache
def registry() -> dict[str, ModelEntry]:
    """Return every model by name: the `METADATA` of each file in `models/`, if that folder exists.

    Raises:
        UserError: a file's `METADATA` is missing or wrong.
    """
    return {path.stem: read_metadata(path) for path in sorted(MODELS_DIR.glob("*.py"))}


def read_metadata(path: Path) -> ModelEntry:
    """Read the literal `METADATA` of a model file without running the file.

    Raises:
        UserError: the file cannot be parsed, or its `METADATA` is missing or wrong.
    """
    try:
        TypeAdapter(Name).validate_python(path.stem)
        values = [
            statement.value
            for statement in ast.parse(read_bytes(path, 1_000_000)).body
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "METADATA"
        ]
        return ModelEntry.model_validate(ast.literal_eval(values[-1]) if values else {})
    except ValidationError as error:
        raise UserError(f"{path}: METADATA: {first_error(error)}") from error
    except SyntaxError as error:
        raise UserError(f"{path}:{error.lineno}: is not Python ({error.msg})") from error
    except ValueError as error:
        raise UserError(f"{path}: METADATA must be a dictionary of plain values") from error


def title_of(model: str) -> str:
    """Return the title of a model, or its name if it is not in the registry."""
    return registry()[model].title if model in registry() else model


def weights_of(name: str) -> str | None:
    """Return the name of the pretrained weights of a model, if any; a user's own model has none."""
    entry = registry().get(name)
    return entry.weights if entry else None


def cell_code(cell: Cell) -> str:
    """Return the digest of the code of a cell's model, and of the user's own data."""
    specs = [spec for spec in (cell.build, cell.load) if spec]
    files = [file for spec in specs for file in source_files(spec)]
    return code_sha256(files if cell.build else [f"{MODELS_DIR}/{cell.model}.py"])


def load(name: str) -> ModuleType:
    """Import `models/<name>.py`. The docstring of this module lists its contents."""
    return import_file(MODELS_DIR / f"{name}.py", f"nodewise_model_{name}")
