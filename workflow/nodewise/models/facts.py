"""Facts about a model that are known without building it: its layers and their totals.

`nodewise describe-model` writes them to `data/models/<name>.json`.
"""

from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path

from pydantic import BaseModel

from nodewise.core.cell import Cell
from nodewise.core.errors import UserError
from nodewise.core.files import write_json
from nodewise.core.schema import read_json
from nodewise.core.user_function import own_model
from nodewise.models.registry import registry
from nodewise.results.model_description import Architecture

DESCRIPTIONS = Path("data/models")
OWN_DESCRIPTIONS = Path("results/models")
"""Descriptions of users' own models, created by the workflow or on request."""
_ADVICE = "remove the file to have the model described again"


@cache
def facts(name: str) -> Architecture:
    """Return the description of a model in the registry; see `read_facts`."""
    return read_facts(DESCRIPTIONS, name)


def read_facts(folder: Path, name: str) -> Architecture:
    """Read `folder/<name>.json`.

    Raises:
        UserError: the file is missing or invalid.
    """
    path = folder / f"{name}.json"
    command = f"run: nodewise describe-model {name}"
    if not path.is_file():
        raise UserError(f"{path}: the model {name} is not described; {command}")
    return read_json(Architecture, path, command)


def read_all_facts(
    folder: Path, trained: Collection[str], own: Mapping[str, Path]
) -> dict[str, Architecture]:
    """Read the descriptions of all models in the registry that were trained or are described.

    Users' own models that were trained follow; `own` maps their names in the study to their files.

    Raises:
        UserError: the file of a model in `trained` is missing, or a file is invalid.
    """
    known = {
        name: read_facts(folder, name)
        for name in registry()
        if name in trained or (folder / f"{name}.json").is_file()
    }
    for name, path in own.items():
        if name in trained and (described := read_own(path)):
            known[name] = described.model_copy(update={"model": name})
    return known


class _Kind(BaseModel):
    refused: str | None = None


def read_own(path: Path) -> Architecture | None:
    """Read the description of a user's own model; None if there is none or it was refused.

    Raises:
        UserError: the file is invalid.
    """
    if not path.is_file() or why_refused(path) is not None:
        return None
    return read_json(Architecture, path, _ADVICE)


def why_refused(path: Path) -> str | None:
    """Return why a file in `results/models` contains no description; None if it contains one.

    Raises:
        UserError: the file is not valid JSON.
    """
    return read_json(_Kind, path, _ADVICE).refused


def refuse_own(path: Path, reason: str) -> None:
    """Write the reason why a user's own model has no description, in place of the description."""
    write_json(path, {"refused": reason})


def description_of(cell: Cell) -> Architecture | None:
    """Return the description of a cell's model; None if there is none.

    Raises:
        UserError: a description is invalid.
    """
    if cell.build:
        return read_own(own_description(cell))
    return facts(cell.model) if (DESCRIPTIONS / f"{cell.model}.json").is_file() else None


def own_models(cells: Iterable[Cell]) -> dict[str, Cell]:
    """Return one cell for each of the users' own models, by the model's name in the study."""
    return {cell.model: cell for cell in cells if cell.build}


def own_description(cell: Cell) -> Path:
    """Return where `nodewise describe-model` writes the description of a cell's own model."""
    name = own_model(str(cell.build), cell.load or cell.dataset)
    return OWN_DESCRIPTIONS / f"{name}.json"
