"""Return the titles of experiments and strategies, for sentences, charts and tables."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nodewise.core.cell import Cell
from nodewise.core.units import counted
from nodewise.results.record import read_record
from nodewise.strategies import STRATEGIES
from nodewise.study.config import Config, read_config


@dataclass(frozen=True)
class Variant:
    """A strategy with options that a study has named.

    `strategy` is the name of the registered strategy, and `title` the variant's title.
    """

    strategy: str
    title: str


def experiment_titles(config: Config) -> dict[str, str]:
    """Return the titles of a study's experiments, by name.

    Experiments of records that were measured earlier get their titles from the configuration that
    the folder of these records is named after, if that configuration still exists.

    Raises:
        UserError: a configuration of earlier records is invalid.
    """
    configs = (*map(read_config, config.earlier_configs()), config)
    return {name: one.title for of in configs for name, one in of.experiments.items()}


def named_variants(config: Config) -> dict[str, Variant]:
    """Return the variants of strategies that a study names, by name.

    If the study uses records that were measured earlier, the variants are read from the records,
    because the configuration may have changed since.

    Raises:
        UserError: a record that was measured earlier is invalid, or a folder contains no records.
    """
    cells = _measured_before(config) if config.records else config.cells()
    return {
        cell.variant: Variant(cell.strategy, title_of_strategy(cell))
        for cell in cells
        if cell.variant
    }


def short_title(strategy: str) -> str:
    """Return the short title of a strategy; a name that is not registered is returned as it is."""
    return STRATEGIES[strategy].short_title if strategy in STRATEGIES else strategy


def title_of_strategy(cell: Cell) -> str:
    """Return the title of a cell's strategy, with the setting if it is a study's own variant."""
    title, setting = STRATEGIES[cell.strategy].short_title, title_of_variant(cell)
    return f"{title} ({setting})" if setting else title


def title_of_variant(cell: Cell) -> str:
    """Return the setting of a cell's variant in words; empty if its strategy is not a variant.

    If the setting has no words, the name that the study gives the variant is returned.
    """
    if not cell.variant:
        return ""
    exchange = STRATEGIES[cell.strategy].exchange_of(cell.options)
    return setting_in_words(exchange, cell.options) or cell.variant.replace("_", " ")


def setting_in_words(exchange: str, options: Mapping[str, Any]) -> str:
    """Describe the options of a strategy that change how workers exchange; empty if none do.

    Args:
        exchange: how workers exchange, such as `averaging` or `server`.
        options: the options of the strategy.
    """
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


def _measured_before(config: Config) -> Iterator[Cell]:
    """Yield one cell of each variant in the records that were measured earlier, the first found."""
    files = config.record_files(Path())  # earlier records are in folders of their own
    firsts = {file.parents[2].name: file for file in reversed(files)}
    for name, file in firsts.items():
        if name not in STRATEGIES:
            yield read_record(file).cell


def _pipelines(options: Mapping[str, Any]) -> str:
    groups, parts = options.get("groups"), options.get("micro_batches", 1)
    settings = [
        counted(groups, "group") if groups else "",
        f"{parts} micro-batches" if parts > 1 else "",
    ]
    return ", ".join(filter(None, settings))


def _staleness_control(options: Mapping[str, Any]) -> str:
    bound, updates = options.get("bound"), options.get("updates")
    servers = options.get("servers", 1)
    settings = [
        counted(servers, "server") if servers > 1 else "",
        f"at most {counted(bound, 'step')} ahead of the slowest worker"
        if bound is not None
        else "",
        f"{counted(updates, 'gradient')} per update" if updates else "",
        "stale gradients count less" if options.get("scale_by_staleness") else "",
    ]
    return ", ".join(filter(None, settings))


def _codec(options: Mapping[str, Any]) -> str:
    if options["method"] == "threshold":
        return f"entries beyond ±{options['threshold']:g}, sign only"
    if options["method"] == "top_k":
        return f"the largest {100 * options['share']:g}\u00a0% of the entries"
    return "half precision" if options["method"] == "float16" else str(options["method"])
