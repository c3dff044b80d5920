"""The titles of experiments and strategies, as sentences, charts and tables have them."""

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
    """A strategy with options, under a name that a study gives it: whose it is, and its title."""

    strategy: str
    title: str


def experiment_titles(config: Config) -> dict[str, str]:
    """Return the titles of a study's experiments, by name.

    Records measured before have those of the configuration that their folder is named after, if it
    is still there.

    Raises:
        UserError: a configuration of records measured before is invalid.
    """
    configs = (*map(read_config, config.earlier_configs()), config)
    return {name: one.title for of in configs for name, one in of.experiments.items()}


def named_variants(config: Config) -> dict[str, Variant]:
    """Return the variants of strategies that a study names, by name.

    Those measured before are what their records say: a configuration may have changed since.

    Raises:
        UserError: a record measured before is invalid, or a folder of records holds none.
    """
    cells = _measured_before(config) if config.records else config.cells()
    return {
        cell.variant: Variant(cell.strategy, title_of_strategy(cell))
        for cell in cells
        if cell.variant
    }


def short_title(strategy: str) -> str:
    """Return the short title of a strategy; a name that a study gave stays as it is."""
    return STRATEGIES[strategy].short_title if strategy in STRATEGIES else strategy


def title_of_strategy(cell: Cell) -> str:
    """Return the title of the strategy of a cell; of a variant, with its setting."""
    title, setting = STRATEGIES[cell.strategy].short_title, title_of_variant(cell)
    return f"{title} ({setting})" if setting else title


def title_of_variant(cell: Cell) -> str:
    """Return the setting of a variant in words, or what its study calls it; else nothing."""
    if not cell.variant:
        return ""
    exchange = STRATEGIES[cell.strategy].exchange_of(cell.options)
    return setting_in_words(exchange, cell.options) or cell.variant.replace("_", " ")


def setting_in_words(exchange: str, options: Mapping[str, Any]) -> str:
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


def _measured_before(config: Config) -> Iterator[Cell]:
    """Yield a cell of each variant whose records were measured before, of the first that has it."""
    files = config.record_files(Path())  # in folders of their own
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
