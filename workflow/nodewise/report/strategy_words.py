"""What sentences call a strategy and its options."""

from collections.abc import Mapping
from typing import Any

from nodewise.core.cell import Cell
from nodewise.core.units import counted
from nodewise.strategies import STRATEGIES


def trained_by(cell: Cell) -> str:
    """Return what a sentence calls the strategy of a cell; of a variant, its setting, too."""
    strategy = STRATEGIES[cell.strategy]
    if cell.strategy_name == cell.strategy:
        return strategy.short_title
    said = setting(strategy.exchange_of(cell.options), cell.options) or cell.strategy_name
    return f"{strategy.short_title} ({said})"


def setting(exchange: str, options: Mapping[str, Any]) -> str:
    """Return in words what the options of a cell say about how it exchanges; empty if nothing."""
    if exchange == "averaging":
        period = options["period"]
        return {1: "every step", "epoch": "every epoch"}.get(period, f"every {period} steps")
    if exchange == "server":
        return _staleness_control(options)
    if exchange == "all-gather":
        return _codec(options)
    return str(options.get("collective", ""))


def _staleness_control(options: Mapping[str, Any]) -> str:
    bound, updates = options.get("bound"), options.get("updates")
    said = [
        f"at most {counted(bound, 'step')} ahead of the slowest worker"
        if bound is not None
        else "",
        f"{counted(updates, 'gradient')} per update" if updates else "",
        "stale gradients count less" if options.get("scale_by_staleness") else "",
    ]
    return ", ".join(filter(None, said))


def _codec(options: Mapping[str, Any]) -> str:
    if options["method"] == "threshold":
        return f"entries beyond ±{options['threshold']:g}, sign only"
    if options["method"] == "top_k":
        return f"the largest {100 * options['share']:g}\u00a0% of the entries"
    return "half precision" if options["method"] == "float16" else str(options["method"])
