"""Which files of the package one of its files needs, for rules that are to notice changes."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

_PACKAGE = Path(__file__).parent
_IMPORT = re.compile(
    r"^\s*from nodewise((?:\.\w+)*) import (?:\(([^)]*)\)|([^#\n]*))", re.MULTILINE
)


def imported(*files: str) -> list[Path]:
    """Return `files`, named as in the package, and all that they import from it, sorted.

    Imports inside functions count; what is imported by a name that is made at run time does not.
    """
    found: set[Path] = set()
    queue = [_PACKAGE / file for file in files]
    while queue:
        file = queue.pop()
        if file not in found:
            found.add(file)
            queue += _imports(file)
    return sorted(found)


@cache  # many ask about the same files
def _imports(file: Path) -> tuple[Path, ...]:
    return tuple(_found_in(file))


def _found_in(file: Path) -> Iterator[Path]:
    for dotted, several, one in _IMPORT.findall(file.read_text(encoding="utf-8")):
        folder = _PACKAGE.joinpath(*dotted.split("."))
        names = [name.split()[0] for name in (several or one).split(",") if name.strip()]
        for module in (folder, *(folder / name for name in names)):
            for candidate in (module.with_suffix(".py"), module / "__init__.py"):
                if candidate.is_file():
                    yield candidate
        for package in folder.relative_to(_PACKAGE).parents:
            yield _PACKAGE / package / "__init__.py"
