"""Read YAML with plain values only: without the surprises of YAML 1.1, and with size limits."""

import re
from typing import Any

import yaml

MOST_VALUES = 20_000
"""Largest number of values in a YAML file; those that an alias repeats count each time."""

# Errors that reading YAML raises. It is a ValueError if a number has too many digits.
NOT_YAML = (yaml.YAMLError, ValueError)


def load_yaml(text: bytes | str) -> Any:  # noqa: ANN401
    """Parse a YAML text and return its content.

    As in YAML 1.2, `yes`, `on`, `1:30`, `2026-11-25` and `010` are text. Only `true` and `false`
    are booleans. There is no merge key `<<`.

    Raises:
        yaml.YAMLError, ValueError: the text is not YAML, has other than plain values, or exceeds a
            limit.
    """
    try:
        content = yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    values, waiting = 0, [content]
    while waiting:
        value = waiting.pop()
        values += 1
        if values > MOST_VALUES:  # also if an alias is a part of itself
            raise ValueError(f"more than the {MOST_VALUES:,} values that are allowed")
        if isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
    return content


class _Loader(yaml.SafeLoader):
    """A YAML loader that refuses tags and duplicate keys.

    Of duplicate keys PyYAML would keep the last one, and an experiment could vanish unnoticed.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Refuse a tag, then compose the node as PyYAML does."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if getattr(event, "tag", None) not in (None, "!"):
            raise _refusal(f"the tag {event.tag!r:.80} is not allowed", event)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Check the keys of a mapping, then construct it as PyYAML does."""
        seen = set()
        for written, _ in node.value:
            key = self.construct_object(written, deep=True)
            problem = ""
            if not isinstance(key, str):
                problem = "must be text"
            elif not key.isprintable():
                problem = "must be printable"
            elif key in seen:
                problem = "appears twice"
            if problem:
                raise _refusal(f"the key {key!r:.80} {problem}", written)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _refusal(problem: str, at: Any) -> yaml.YAMLError:  # noqa: ANN401 (a node or an event)
    return yaml.constructor.ConstructorError(None, None, problem, at.start_mark)


for _tag, _pattern, _first in (
    ("bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("int", r"[-+]?(0|[1-9][0-9]*)", "-+0123456789"),
    (
        "float",
        r"[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?|[-+]?[0-9]+[eE][-+]?[0-9]+"
        r"|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        "-+.0123456789",
    ),
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first)
    )
