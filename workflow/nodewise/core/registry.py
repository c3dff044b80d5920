"""Registries: strategies, laws, figures and the like register themselves by name."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from nodewise.core.errors import UserError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """What is registered, by name and ordered by it.

    The modules of the package `folder` register what they define when they are imported: they call
    `add`. Another package names its modules as entry points of `group`. All are imported when the
    registry is first read.

    Args:
        kind: what is registered, for messages: `strategy`.
        folder: the package whose modules are imported.
        group: the entry points whose modules are imported, too; none if there is no such group.
        packages_only: import only the packages of `folder`. Its other modules are helpers.
    """

    def __init__(
        self, kind: str, folder: str, group: str | None = None, *, packages_only: bool = False
    ) -> None:
        self.kind = kind
        self._folder = folder
        self._group = group
        self._packages_only = packages_only
        self._found: dict[str, T] = {}
        self._complete = False

    def add(self, name: str, value: T) -> None:
        """Register `value` as `name`.

        Raises:
            UserError: another value has that name.
        """
        if name in self._found:
            raise UserError(f"{self.kind} {name}: appears twice, a name must be unique")
        self._found[name] = value

    def find(self, name: str) -> T:
        """Return what is registered as `name`.

        Raises:
            UserError: there is nothing; the text lists the names that are allowed.
        """
        if name not in self:
            raise UserError(f"{self.kind} {name}: unknown; allowed: {', '.join(self)}")
        return self[name]

    def __getitem__(self, name: str) -> T:
        return self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self._all()))

    def __len__(self) -> int:
        return len(self._all())

    def _all(self) -> dict[str, T]:
        if not self._complete:
            self._complete = True  # what is imported below may read the registry
            package = importlib.import_module(self._folder)
            for module in pkgutil.iter_modules(package.__path__, f"{self._folder}."):
                if module.ispkg or not self._packages_only:
                    importlib.import_module(module.name)
            for point in entry_points(group=self._group) if self._group else ():
                _import_plugin(self.kind, point.value)
        return self._found


def _import_plugin(kind: str, module: str) -> None:
    """Import another package's module, which may fail in any way.

    Raises:
        UserError: it failed.
    """
    try:
        importlib.import_module(module)
    except UserError:
        raise
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{kind} plug-in {module}: cannot be imported ({reason})") from error
