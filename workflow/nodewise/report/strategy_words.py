"""What sentences call a strategy and its options."""

from collections.abc import Mapping
from typing import Any

from nodewise.core.cell import Cell
from nodewise.core.units import counted
from nodewise.strategies import STRATEGIES


def trained_by(cell: Cell) -> str:
    """Return what a sentence calls the strategy of a cell; of a variant, its setting, too."""
    title, variant = STRATEGIES[cell.strategy].short_title, variant_of(cell)
    return f"{title} ({variant})" if variant else title


def variant_of(cell: Cell) -> str:
    """Return the setting of a variant in words, or what its study calls it; else nothing."""
    if cell.strategy_name == cell.strategy:
        return ""
    exchange = STRATEGIES[cell.strategy].exchange_of(cell.options)
    return setting(exchange, cell.options) or cell.strategy_name


def setting(exchange: str, options: Mapping[str, Any]) -> str:
    """Return in words what the options of a cell say about how it exchanges; empty if nothing."""
    if exchange == "averaging":
        period = options["period"]
        return {1: "every step", "epoch": "every epoch"}.get(period, f"every {period} steps")
    if exchange == "server":
        return _staleness_control(options)
    if exchange == "all-gather":
        return _codec(options)
    if exchange == "activations":
        return _pipelines(options)
    return str(options.get("collective", ""))


def _pipelines(options: Mapping[str, Any]) -> str:
    groups, parts = options.get("groups"), options.get("micro_batches", 1)
    said = [
        counted(groups, "group") if groups else "",
        f"{parts} micro-batches" if parts > 1 else "",
    ]
    return ", ".join(filter(None, said))


def _staleness_control(options: Mapping[str, Any]) -> str:
    bound, updates = options.get("bound"), options.get("updates")
    servers = options.get("servers", 1)
    said = [
        counted(servers, "server") if servers > 1 else "",
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
