"""What is declared of a strategy, and the registry of all declarations.

Configurations are checked and pages are rendered by it: neither this module nor a declaration
imports TensorFlow.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from nodewise.cluster.api import NotPermittedError
from nodewise.core.cell import Extent, Frozen, Input
from nodewise.core.registry import Registry
from nodewise.core.schema import first_error
from nodewise.strategies.bytes_sent import BytesSent, unknown

if TYPE_CHECKING:
    from nodewise.predict.law import Law


class Options(Frozen):
    """What can be chosen about a strategy: nothing, unless a subclass has fields."""

    @property
    def server_nodes(self) -> int:
        """Nodes that hold parameters, beside those that train."""
        return 0

    def check(self, nodes: int) -> None:
        """See that the options make sense on `nodes` nodes.

        Raises:
            ValueError: they do not; the text names the option and what is allowed.
        """

    def check_training(self, nodes: int, batch: int, model: str | None) -> None:
        """See that a model can be trained so, as far as that is known before it is built.

        Args:
            nodes: on which `check` has found nothing wrong.
            batch: examples per node and step.
            model: one of this project's; None for any other.

        Raises:
            ValueError: it cannot; the text names what is wrong and what is allowed.
        """

    def check_extent(self, extent: Extent) -> None:
        """See that what the options ask for happens while steps are timed.

        Raises:
            ValueError: it does not; the text names the option and what is allowed.
        """


NO_OPTIONS = Options()


@dataclass(frozen=True, kw_only=True)
class Facts:
    """A strategy in short, in words and symbols that its page explains.

    Attributes:
        synchronous: whether its workers wait for each other.
        holds: who holds the parameters.
        sends: the formula of the bytes that a node sends per step.
        needs: what it takes.
        unknown: which part of that formula a cell does not tell, in a sentence.
    """

    synchronous: str
    holds: str
    sends: str
    needs: str
    unknown: str = ""


def _nothing_missing() -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """What is known of a strategy without training with it.

    Attributes:
        module: the package that declares it, `__name__` there. Its module `worker` trains: it has a
            class `Strategy`, and a class `Server` if the strategy has servers.
        title: what it is called. Tables and sentences leave out what follows a comma.
        max_nodes: the most nodes that train.
        exchange: how what was computed is brought together: the name of a law of the step time, or
            an alias of one; `none`, or `devices` of one process. An option `collective` says it
            instead, if the strategy has one.
        facts: what its page and the comparison of strategies say of it.
        bytes_sent: the formula of the bytes that a node sends per step.
        options: what can be chosen about it.
        whole_batches: whether every worker is given the whole global batch, not a part of its own.
        one_process: whether the nodes are devices of one process.
        packages: what it trains with beside TensorFlow; records tell their versions.
        why_missing: returns in one line what this machine lacks for it, None if it lacks nothing.
    """

    module: str
    title: str
    max_nodes: int
    exchange: str
    facts: Facts
    bytes_sent: BytesSent = unknown
    options: type[Options] = Options
    whole_batches: bool = False
    one_process: bool = False
    packages: tuple[str, ...] = ()
    why_missing: Callable[[], str | None] = _nothing_missing

    @property
    def short_title(self) -> str:
        """The title without what follows a comma."""
        return self.title.partition(",")[0]

    @property
    def nodes(self) -> str:
        """The numbers of nodes that are allowed, in words."""
        return f"1 to {self.max_nodes}" if self.max_nodes > 1 else "1"

    @property
    def folder(self) -> Path:
        """The folder of the strategy."""
        return Path(str(import_module(self.module).__file__)).parent

    def own_law(self) -> "type[Law] | None":
        """Import the law of its steps that nothing is fitted to; None if it has none.

        It is the class `Step` of the strategy's module `law`, and its page shows it.
        """
        if not (self.folder / "law.py").is_file():
            return None
        law: type[Law] = import_module(f"{self.module}.law").Step
        return law

    def check_available(self) -> None:
        """Check that this machine has what the strategy needs, before any worker starts.

        Raises:
            NotPermittedError: it has not.
        """
        missing = self.why_missing()
        if missing:
            raise NotPermittedError(missing)

    def worker(self) -> ModuleType:
        """Import the module that trains, and TensorFlow with it.

        Workers are forked after this: the module must start no thread and compute nothing.
        """
        return import_module(f"{self.module}.worker")

    def checked(self, options: dict[str, Any], nodes: int) -> Options:
        """Return `options`, defaults filled in, for a job of `nodes` nodes.

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

    def exchange_of(self, options: Mapping[str, object]) -> str:
        """Return how what was computed is brought together with these `options` of a cell."""
        return str(options.get("collective", self.exchange))

    def fields(self, options: Options, fed: Input) -> dict[str, Any]:
        """Return the fields of a cell that follow from the strategy and its `options`."""
        return {
            "options": options.model_dump(),
            "exchange": self.exchange_of(options.model_dump()),
            "servers": options.server_nodes,
            "one_process": self.one_process,
            "input": "whole" if self.whole_batches else fed,
        }


STRATEGIES: Registry[Declaration] = Registry(
    "strategy", "nodewise.strategies", "nodewise.strategies", packages_only=True
)
"""All strategies. Each is a package; another project names its own as entry points."""
