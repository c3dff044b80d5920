"""Registries, in which strategies, laws, figures and the like register themselves by name."""

import importlib
import pkgutil
from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Generic, TypeVar

from nodewise.core.errors import UserError

T = TypeVar("T")


class Registry(Mapping[str, T], Generic[T]):
    """A mapping from names to registered values, sorted by name.

    Modules register what they define by calling `add` when they are imported. These are the
    packages in `folder`, or its modules if it has none, and modules that other packages declare as
    entry points of `group`. All of them are imported when the registry is first read.

    Args:
        kind: what is registered, such as `strategy`; used in messages.
        folder: name of the package that contains them; None for none.
        group: group of entry points whose modules are imported, too; None for none.
    """

    def __init__(self, kind: str, folder: str | None, group: str | None = None) -> None:
        self.kind = kind
        self._folder = folder
        self._group = group
        self._found: dict[str, T] = {}
        self._complete = False

    def add(self, name: str, value: T) -> None:
        """Register `value` under `name`.

        Raises:
            UserError: the name is already taken.
        """
        if name in self._found:
            raise UserError(f"{self.kind} {name}: appears twice, a name must be unique")
        self._found[name] = value

    def find(self, name: str) -> T:
        """Return the value that is registered under `name`.

        Raises:
            UserError: the name is unknown; the message lists the allowed names.
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
        """Import all modules that register values, once, and return what they registered.

        Raises:
            UserError: a module of another package cannot be imported, for whatever reason.
        """
        if self._complete:
            return self._found
        self._complete = True  # set first, because the imported modules may read the registry
        name = self._folder
        try:
            path = importlib.import_module(self._folder).__path__ if self._folder else ()
            modules = list(pkgutil.iter_modules(path, f"{self._folder}."))
            for module in [one for one in modules if one.ispkg] or modules:
                importlib.import_module(module.name)
            for point in entry_points(group=self._group) if self._group else ():
                name = point.value
                importlib.import_module(name)
        except Exception as error:
            self._complete = False
            if name == self._folder or isinstance(error, UserError):
                raise
            raise UserError(
                f"{self.kind} plug-in {name}: cannot be imported ({type(error).__name__}: {error})"
            ) from error
        return self._found
