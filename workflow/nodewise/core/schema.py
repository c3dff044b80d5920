"""Read and validate YAML and JSON files, with one-line error messages."""

import codecs
import json
import os
import re
import stat
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from nodewise.core.cell import NAME
from nodewise.core.errors import UserError
from nodewise.core.plain_yaml import NOT_YAML, load_yaml

MOST_YAML_BYTES = 200_000
MOST_JSON_BYTES = 100_000_000  # a record of 64 workers and 100,000 steps

_SHORTER = {
    r"^([A-Z]\w+ )?should": "must",
    "greater than or equal to": "at least",
    "less than or equal to": "at most",
    "greater than": "more than",
    rf"match pattern '{re.escape(NAME)}'": "be small letters, digits and _, a letter first",
    r"match pattern '\^\(\[a-z\].*": "be a dataset's name or path/file.py:function",
    "match pattern .*:.A-Za-z_.*": "be path/file.py:function or package.module:function",
    "a valid dictionary.*": "keys and values",
    "a valid integer": "a whole number",
    "a valid ": "a ",
    " after validation.*": "",
}
"""Patterns in Pydantic's messages, and shorter words."""
_NAMES_A_FIELD = re.compile(r"[a-z_][\w.\[\]]*: ")  # message of a check of several fields

Model = TypeVar("Model", bound=BaseModel)
Tree = TypeVar("Tree")


def read_start(path: Path, most: int) -> bytes:
    """Return the first `most` bytes of a file, or all.

    Raises:
        OSError: the file cannot be read, or is a pipe or a device, which might never end.
    """
    # a pipe without a writer would block, and so would files of the kernel, such as /proc/kmsg
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        regular = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
        content: bytes | None = file.read(most) if regular else None
        if content is None:
            raise OSError(None, "it is not a regular file")
        return content


def read_bytes(path: Path, most: int) -> bytes:
    """Read a file of at most `most` bytes. A larger file is not read as a whole.

    Raises:
        UserError: the file cannot be read, or is too large.
    """
    try:
        content = read_start(path, most + 1)
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    if len(content) > most:
        raise UserError(f"{path}: is too large, at most {most:,} bytes are allowed")
    return content


def read_json(model: type[Model], path: Path, advice: str = "") -> Model:
    """Read a JSON file and validate it.

    Args:
        model: class of the content.
        path: the file.
        advice: text for the error message that says what to do.

    Raises:
        UserError: the file is missing, too large, not JSON, or not valid.
    """
    content = read_bytes(path, MOST_JSON_BYTES).removeprefix(codecs.BOM_UTF8)
    try:
        return model.model_validate_json(content)
    except ValidationError as error:
        raise UserError(f"{path}: {first_error(error)}{advice and '; ' + advice}") from error


def json_text(content: BaseModel) -> str:
    """Return the text of a JSON file that `read_json` can read."""
    return content.model_dump_json(indent=1) + "\n"


def read_yaml(adapter: TypeAdapter[Tree], path: Path) -> Tree:
    """Read a YAML file and validate it. Its values must be of types that JSON has.

    Raises:
        UserError: the file is missing, too large, not YAML, or not valid.
    """
    try:
        return adapter.validate_json(json.dumps(read_tree(path), default=str))
    except ValidationError as error:
        raise UserError(f"{path}: {first_error(error)}") from error


def read_tree(path: Path) -> Any:  # noqa: ANN401
    """Read a YAML file without validating it. Only its keys are checked: unique and text.

    Raises:
        UserError: the file is missing, too large, or not YAML.
    """
    content = read_bytes(path, MOST_YAML_BYTES)
    try:
        return load_yaml(content)
    except NOT_YAML as error:
        mark = getattr(error, "problem_mark", None)
        line = f" line {mark.line + 1}:" if mark else ""
        parts = [getattr(error, name, None) for name in ("context", "problem")]
        problem = ", ".join(filter(None, parts)) or str(error)
        raise UserError(
            f"{path}:{line} cannot be read as YAML ({' '.join(problem.split())})"
        ) from error


def first_error(error: ValidationError) -> str:
    """Return the location and message of the first error, and the number of further errors."""
    # another version explains unknown keys, and a misspelt key why another one is missing
    first, *others = sorted(
        error.errors(),
        key=lambda one: (one["loc"] != ("version",), one["type"] != "extra_forbidden"),
    )
    more = f" (and {len(others)} more)" if others else ""
    place, text = location(first), message(first)
    if first["type"] != "value_error" or not _NAMES_A_FIELD.match(text):
        return f"{place}: {text}{more}"
    return f"{place}.{text}{more}" if first["loc"] else f"{text}{more}"


def location(error: ErrorDetails) -> str:
    """Return the location of an error, such as `experiments.ntua.batches[2]`."""
    place = ""
    for part in error["loc"]:
        if isinstance(part, int):
            place += f"[{part}]"
        elif part != "[key]":
            place += f".{part:.80}"
    return place.removeprefix(".") or "the file"


def message(error: ErrorDetails) -> str:
    """Return a message that says what is wrong and what is allowed."""
    kind, value = error["type"], error["input"]
    if kind == "missing":
        return "required, but missing"
    if kind == "extra_forbidden":
        return "unknown key"
    if kind in ("value_error", "json_invalid"):
        return error["msg"].removeprefix("Value error, ")
    allowed = error["msg"]
    for words, shorter in _SHORTER.items():
        allowed = re.sub(words, shorter, allowed)
    if str(value).strip().lower() == "nan":  # it is neither too large nor too small
        allowed = "must be a number"
    plain = value is None or isinstance(value, bool)
    return f"{json.dumps(value) if plain else repr(value):.80} is not allowed, {allowed}"
