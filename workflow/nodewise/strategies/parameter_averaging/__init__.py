"""Parameter averaging: workers train alone and average their weights from time to time."""

from typing import Annotated, Literal

from pydantic import BeforeValidator

from nodewise.core.cell import Extent
from nodewise.core.exchanges import AVERAGING
from nodewise.strategies.declaration import STRATEGIES, Declaration, Options

_MAX_PERIOD = 1_000_000


def _is_a_period(value: object) -> object:
    if value == "epoch" or (type(value) is int and 1 <= value <= _MAX_PERIOD):
        return value
    raise ValueError(f"must be epoch, or steps: 1 to {_MAX_PERIOD:,}; not {value!r:.80}")


class ParameterAveraging(Options):
    """Options of parameter averaging.

    Attributes:
        period: the number of steps between two averages, or `epoch`.
    """

    period: Annotated[int | Literal["epoch"], BeforeValidator(_is_a_period)] = 10

    def check_training(self, nodes: int, batch: int, model: str | None, extent: Extent) -> None:
        if extent.steps is None:
            return
        if self.period == "epoch":
            raise ValueError("options.period: epoch only where epochs are timed, not steps")
        if self.period > extent.steps:
            raise ValueError(
                f"options.period: at most {extent.steps}, the timed steps; not {self.period}"
            )


STRATEGIES.add(
    "parameter_averaging",
    Declaration(
        module=__name__,
        title="Parameter averaging, ring all-reduce",
        max_nodes=64,
        exchange=AVERAGING,
        options=ParameterAveraging,
    ),
)
