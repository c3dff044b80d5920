"""The declaration of a strategy, and the registry of all declarations.

Configurations are checked and pages are rendered with declarations, so neither this module nor a
declaration may import TensorFlow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from pydantic import ValidationError

from nodewise.core.cell import Extent, Frozen, Input
from nodewise.core.errors import RefusedError, UserError
from nodewise.core.exchanges import EXCHANGES, Exchange
from nodewise.core.registry import Registry
from nodewise.core.schema import first_error


class Options(Frozen):
    """The options of a strategy. Without a subclass there are none."""

    @property
    def server_nodes(self) -> int:
        """The number of nodes that hold parameters, in addition to those that train."""
        return 0

    def check(self, nodes: int) -> None:
        """Check that the options are valid on `nodes` nodes.

        Raises:
            ValueError: they are not; the text names the option and what is allowed.
        """

    def check_training(self, nodes: int, batch: int, model: str | None, extent: Extent) -> None:
        """Check that a model can be trained with these options, as far as known before it is built.

        Args:
            nodes: the number of nodes, already checked by `check`.
            batch: examples per node and step.
            model: the name of one of this project's models; None for any other model.
            extent: the timed steps, during which the options must take effect.

        Raises:
            ValueError: it cannot; the text names what is wrong and what is allowed.
        """


@dataclass(frozen=True, kw_only=True)
class Library:
    """A library that is built beside the project's environment, for one strategy.

    Attributes:
        folder: where it is built. `manifest.json` there says what was built, or why nothing was,
            and `site` has the modules.
        why_missing: returns one line that says why it cannot be used, or None.
    """

    folder: Path
    why_missing: Callable[[], str | None]

    @property
    def manifest(self) -> Path:
        """The file that is written last when the library is built."""
        return self.folder / "manifest.json"


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """Everything that is known about a strategy without training with it.

    Attributes:
        module: the package that declares the strategy (`__name__` there). Its module `worker` has
            `Strategy`, a class or a function that creates an object, a class `Server` if the
            strategy has servers, and a function `check(job)` if it splits models.
        title: the display name. Tables and sentences use only the part before a comma.
        max_nodes: the largest number of nodes that train.
        exchange: how workers combine what they computed, an entry of the table of exchanges. If the
            strategy has an option `collective`, that option names the entry instead.
        needs: what the strategy requires, for readers.
        options: the class of its options.
        whole_batches: whether every worker gets the whole global batch instead of its part of it.
        one_process: whether the nodes are devices of one process.
        splits_model: whether nodes hold parts of a model, so that few kinds of models are allowed.
        packages: packages it trains with in addition to TensorFlow; records store their versions.
        library: what has to be built before it can train, or None.
        backend: the backend of Keras in its workers.
        command: the command that builds the library or installs its packages, if it is optional.
    """

    module: str
    title: str
    max_nodes: int
    exchange: Exchange
    needs: str = "nothing else"
    options: type[Options] = Options
    whole_batches: bool = False
    one_process: bool = False
    splits_model: bool = False
    packages: tuple[str, ...] = ()
    library: Library | None = None
    backend: str = "tensorflow"
    command: str = ""

    @property
    def short_title(self) -> str:
        """The title up to its first comma."""
        return self.title.partition(",")[0]

    @property
    def nodes(self) -> str:
        """The allowed numbers of nodes, in words."""
        return f"1 to {self.max_nodes}" if self.max_nodes > 1 else "1"

    @property
    def folder(self) -> Path:
        """The folder of the strategy."""
        return Path(str(import_module(self.module).__file__)).parent

    def check_available(self) -> None:
        """Check that what the strategy trains with is installed and built, before workers start.

        Raises:
            RefusedError: it is not.
        """
        optional = self.packages if self.command else ()
        missing = [package for package in optional if find_spec(package) is None]
        reason = f"{missing[0]} is not installed" if missing else None
        if self.library:
            reason = self.library.why_missing()
        if reason:
            raise RefusedError(reason, self.command)

    def worker(self) -> ModuleType:
        """Import the worker module, and TensorFlow with it. KERAS_BACKEND must be `backend`.

        Workers are forked after this, so the module must not start threads or compute anything.
        """
        return import_module(f"{self.module}.worker")

    def checked(self, options: dict[str, Any], nodes: int) -> Options:
        """Validate `options` for a job of `nodes` nodes; return them with defaults filled in.

        Raises:
            ValueError: an option or the number of nodes is not allowed; the text names it.
        """
        if not 1 <= nodes <= self.max_nodes:
            raise ValueError(f"nodes: allowed for this strategy: {self.nodes}, not {nodes}")
        known = sorted(self.options.model_fields)
        for name in options:
            if name not in known:
                raise ValueError(f"options.{name}: unknown; allowed: {', '.join(known) or 'none'}")
        try:
            checked = self.options.model_validate(options)
        except ValidationError as error:
            raise ValueError(f"options.{first_error(error)}") from error
        checked.check(nodes)
        return checked

    def exchange_of(self, options: Mapping[str, object]) -> Exchange:
        """Return how workers combine what they computed with these `options` of a cell."""
        return EXCHANGES[str(options["collective"])] if "collective" in options else self.exchange

    def fields(self, options: Options, fed: Input) -> dict[str, Any]:
        """Return the fields of a cell that follow from the strategy and its `options`.

        `fed` is the input setting.

        Raises:
            ValueError: every worker of the strategy gets the whole batch, and `fed` divides it.
        """
        if fed != "sharded" and self.whole_batches:
            raise ValueError("input: must be sharded, as this strategy divides no batch")
        return {
            "options": options.model_dump(),
            "exchange": self.exchange_of(options.model_dump()).name,
            "servers": options.server_nodes,
            "one_process": self.one_process,
            "input": "whole" if self.whole_batches else fed,
        }


STRATEGIES: Registry[Declaration] = Registry(
    "strategy", "nodewise.strategies", "nodewise.strategies"
)
"""All strategies. Each is a package; other projects register theirs as entry points."""


def hidden_share(strategy: str) -> float:
    """Return the share of the shorter of computing and sending that a strategy hides.

    Raises:
        UserError: the strategy is unknown, or its share is.
    """
    known = {
        name: entry.exchange.hidden_share
        for name, entry in STRATEGIES.items()
        if entry.exchange.hidden_share is not None
    }
    if strategy not in known:
        raise UserError(f"--strategy {strategy[:40]}: must be one of {', '.join(known)}")
    return known[strategy]
