"""Read YAML with plain values only: without the surprises of YAML 1.1, and with size limits."""

import re
from typing import Any, NoReturn

import yaml

MOST_LEVELS = 50
"""Largest number of levels of nested lists and mappings in a YAML file."""
MOST_VALUES = 20_000
"""Largest number of values in a YAML file; those that an alias repeats count each time.

PyYAML reads 10,000 values a second.
"""

# Errors that reading YAML raises. It is a ValueError if a number has too many digits.
NOT_YAML = (yaml.YAMLError, ValueError)

_MERGE = "tag:yaml.org,2002:merge"  # tag of the key <<


def load_yaml(text: bytes | str) -> Any:  # noqa: ANN401
    """Parse a YAML text and return its content.

    As in YAML 1.2, `yes`, `on`, `1:30`, `2026-11-25` and `010` are text. Only `true` and `false`
    are booleans.

    Raises:
        yaml.YAMLError, ValueError: the text is not YAML, or exceeds a limit.
    """
    return yaml.load(text, Loader=_Loader)  # noqa: S506 (a SafeLoader)


class _Loader(yaml.SafeLoader):
    """A YAML loader for plain values, with limits.

    Duplicate keys are refused. Otherwise PyYAML would keep the last one, and an experiment could
    vanish unnoticed.
    """

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012

    def __init__(self, stream: bytes | str) -> None:
        super().__init__(stream)
        self._level = 0
        self._values = 0  # so far
        self._sizes: dict[yaml.Node | None, int] = {}  # values in each node

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        """Compose a node as PyYAML does, and check the limits of levels and values."""
        event = self.peek_event()  # type: ignore[no-untyped-call]
        if self._level == MOST_LEVELS:
            self._refuse(f"nested deeper than the {MOST_LEVELS} levels that are allowed", event)
        if getattr(event, "tag", None) not in (None, "!"):
            self._refuse(f"the tag {event.tag!r:.80} is not allowed", event)
        before = self._values
        self._level += 1
        node = super().compose_node(parent, index)
        self._level -= 1
        if not isinstance(event, yaml.AliasEvent):
            self._values += 1
            self._sizes[node] = self._values - before
        elif node in self._sizes:
            self._values += self._sizes[node]
        else:
            self._refuse(f"*{event.anchor} is a part of itself", event)
        if self._values > MOST_VALUES:
            self._refuse(f"more than the {MOST_VALUES:,} values that are allowed", event)
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """Check the keys of a mapping, then construct it as PyYAML does."""
        seen = set()
        for written, _ in node.value:
            if written.tag == _MERGE:
                continue
            key = self.construct_object(written, deep=True)
            if not isinstance(key, str):
                self._refuse(f"the key {key!r:.80} must be text", written)
            if key in seen:
                self._refuse(f"the key {key!r:.80} appears twice", written)
            if not key.isprintable():
                self._refuse(f"the key {key!r:.80} must be printable", written)
            seen.add(key)
        return super().construct_mapping(node, deep)

    def _refuse(self, problem: str, at: Any) -> NoReturn:  # noqa: ANN401 (a node or an event)
        raise yaml.constructor.ConstructorError(None, None, problem, at.start_mark)


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
    ("merge", r"<<", "<"),
):
    _Loader.add_implicit_resolver(
        f"tag:yaml.org,2002:{_tag}", re.compile(rf"^(?:{_pattern})$"), list(_first)
    )
