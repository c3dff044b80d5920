"""Read YAML with plain values only: without the surprises of YAML 1.1, and with size limits."""

import json
import math
from contextlib import suppress
from itertools import count
from typing import Any

import yaml

MOST_VALUES = 20_000
"""Largest number of values in a YAML file; those that an alias repeats count each time."""
_TAGS = [f"tag:yaml.org,2002:{name}" for name in ("map", "seq", "str")]

# Errors that reading YAML raises.
NOT_YAML = (yaml.YAMLError, ValueError)


def load_yaml(text: bytes | str) -> Any:  # noqa: ANN401
    """Parse a YAML text and return its content.

    Numbers, `true`, `false` and `null` are written as in JSON; `.inf` is infinity. All else that is
    not quoted is text: `yes`, `on`, `1:30`, `2026-11-25` and `010`. There is no merge key `<<`.

    Raises:
        yaml.YAMLError, ValueError: the text is not YAML, has a tag or a key that is not text or
            appears twice, or exceeds a limit.
    """
    values = count(1)

    def content(node: yaml.Node) -> Any:  # noqa: ANN401
        if next(values) > MOST_VALUES:  # also if an alias is a part of itself
            raise ValueError(f"more than the {MOST_VALUES:,} values that are allowed")
        if node.tag not in _TAGS:
            raise _refusal(f"the tag {node.tag!r:.80} is not allowed", node)
        if isinstance(node, yaml.SequenceNode):
            return [content(one) for one in node.value]
        if isinstance(node, yaml.ScalarNode):
            return node.value if node.style else _plain(node.value)
        entries: dict[str, Any] = {}
        for written, value in node.value:
            key = content(written)
            if not isinstance(key, str):
                raise _refusal(f"the key {key!r:.80} must be text", written)
            # Of duplicate keys the last one would remain, and an experiment vanish unnoticed.
            if key in entries or not key.isprintable():
                problem = "appears twice" if key in entries else "must be printable"
                raise _refusal(f"the key {key!r:.80} {problem}", written)
            entries[key] = content(value)
        return entries

    try:
        root = yaml.compose(text, yaml.BaseLoader)
        return None if root is None else content(root)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _plain(text: str) -> object:
    """Return the value of a scalar without quotes."""
    if text.lstrip("+-").lower() == ".inf":
        return -math.inf if text.startswith("-") else math.inf
    words = {"": None, "~": None, "true": True, "false": False, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    with suppress(ValueError):
        return json.loads(text) if text[-1].isdigit() else text  # NaN and Infinity are text
    return text


def _refusal(problem: str, at: yaml.Node) -> yaml.YAMLError:
    return yaml.MarkedYAMLError(None, None, problem, at.start_mark)
