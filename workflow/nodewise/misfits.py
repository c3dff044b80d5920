"""One clear line out of what pydantic says about data that does not fit; files read with it."""

import json
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from nodewise.cells import NAME
from nodewise.errors import UserError

_WORDS = {
    "extra_forbidden": "unknown key",
    "model_type": "must be keys and values",
    "dict_type": "must be keys and values",
    "list_type": "must be a list, such as [1, 2]",
    "too_short": "must have at least one",
}

# What reading YAML raises; a ValueError where something looks like a date, and is none.
NOT_YAML = (yaml.YAMLError, ValueError)

_MERGE = "tag:yaml.org,2002:merge"  # of the key <<

Model = TypeVar("Model", bound=BaseModel)
Tree = TypeVar("Tree")


def read_json(model: type[Model], path: Path, advice: str = "") -> Model:
    """Read and check a JSON file; `advice` says what to do about a misfit.

    Raises:
        UserError: the file is missing, is not JSON, or does not fit.
    """
    try:
        return model.model_validate_json(path.read_bytes())
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise UserError(f"{path}: {first_misfit(error)}{advice and '; ' + advice}") from error


def read_yaml(adapter: TypeAdapter[Tree], path: Path) -> Tree:
    """Read and check a YAML file, whose values must be those that JSON has.

    Raises:
        UserError: the file is missing, is not YAML, or does not fit.
    """
    try:
        return adapter.validate_json(json.dumps(read_tree(path), default=str))
    except ValidationError as error:
        raise UserError(f"{path}: {first_misfit(error)}") from error


def read_tree(path: Path) -> Any:  # noqa: ANN401
    """Return what a YAML file holds, unchecked, but for keys: each is text, and there once.

    Raises:
        UserError: the file is missing, or is not YAML.
    """
    try:
        return yaml.load(path.read_bytes(), Loader=_UniqueKeys)  # noqa: S506 (a SafeLoader)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except NOT_YAML as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark else ""
        said = " ".join(str(getattr(error, "problem", error)).split())
        raise UserError(f"{path}:{line} not YAML ({said})") from error


class _UniqueKeys(yaml.SafeLoader):
    """YAML keeps the last of two equal keys in silence; an experiment would vanish that way."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for written, _ in node.value:
            if written.tag == _MERGE:
                continue
            key = self.construct_object(written, deep=True)
            if not isinstance(key, str):
                self._refuse(f"the key {key} must be text", written)
            if key in seen:
                self._refuse(f"the key {key!r} is there twice", written)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def _refuse(self, problem: str, at: yaml.Node) -> NoReturn:
        raise yaml.constructor.ConstructorError(None, None, problem, at.start_mark)


def first_misfit(error: ValidationError) -> str:
    """Return where the first misfit is, what must be there, and how many more there are."""
    misfits = in_order(error)
    more = f" (and {len(misfits) - 1} more)" if len(misfits) > 1 else ""
    return f"{where(misfits[0])}: {what(misfits[0])}{more}"


def in_order(error: ValidationError) -> list[ErrorDetails]:
    """Return all misfits; a misspelt key comes before the key that is then missing."""
    return sorted(error.errors(), key=lambda misfit: misfit["type"] != "extra_forbidden")


def where(misfit: ErrorDetails) -> str:
    """Return the place of a misfit, its keys joined by dots."""
    return ".".join(str(part) for part in misfit["loc"] if part != "[key]") or "the file"


def what(misfit: ErrorDetails) -> str:
    """Return what must be at the place of a misfit, and what is."""
    if misfit["type"] == "missing":
        return "required, but not there"
    if misfit["type"] == "union_tag_invalid":
        context = misfit["ctx"]
        return f"kind must be {context['expected_tags']}, not {context['tag']!r}"
    said = misfit["msg"].removeprefix("Value error, ").replace(" should ", " must ")
    said = _WORDS.get(misfit["type"], said.removeprefix("Input "))
    if misfit.get("ctx", {}).get("pattern") == NAME:
        said = "must be small letters, digits and _, a letter first"
    if misfit["type"] in ("value_error", "extra_forbidden", "json_invalid"):
        return said
    return f"{said}, not {misfit['input']!r:.80}"
