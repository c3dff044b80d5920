"""The titles of experiments and strategies, as sentences, charts and tables have them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nodewise.core.cell import Cell
from nodewise.core.units import counted
from nodewise.strategies import STRATEGIES
from nodewise.study.config import Config, read_config


@dataclass(frozen=True)
class Variant:
    """A strategy with options, under a name that a study gives it: whose it is, and its title."""

    strategy: str
    title: str


def experiment_titles(config: Config) -> dict[str, str]:
    """Return the titles of a study's experiments, by name.

    Raises:
        UserError: a configuration of records measured before is invalid.
    """
    return {name: one.title for of in _configs(config) for name, one in of.experiments.items()}


def named_variants(config: Config) -> dict[str, Variant]:
    """Return the variants of strategies that a study names, by name.

    Raises:
        UserError: a configuration of records measured before is invalid.
    """
    found = {}
    for of in _configs(config):
        for experiment in of.experiments.values():
            for name, axes in experiment.strategies.items():
                if axes.strategy:
                    options = STRATEGIES[axes.strategy].checked(axes.options, max(axes.nodes))
                    title = _variant_title(axes.strategy, name, options.model_dump())
                    found[name] = Variant(axes.strategy, title)
    return found


def short_title(strategy: str) -> str:
    """Return the short title of a strategy; a name that a study gave stays as it is."""
    return STRATEGIES[strategy].short_title if strategy in STRATEGIES else strategy


def title_of_strategy(cell: Cell) -> str:
    """Return the title of the strategy of a cell; of a variant, with its setting."""
    return _variant_title(cell.strategy, cell.strategy_name, cell.options)


def title_of_variant(cell: Cell) -> str:
    """Return the setting of a variant in words, or what its study calls it; else nothing."""
    return _setting(cell.strategy, cell.strategy_name, cell.options)


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


def _configs(config: Config) -> Iterator[Config]:
    """Yield the configurations of a study: those of records measured before, then its own.

    Records measured before have the one that their folder is named after, if it is still there.
    """
    yield from map(read_config, config.earlier_configs())
    yield config


def _variant_title(strategy: str, name: str, options: Mapping[str, Any]) -> str:
    title, setting = STRATEGIES[strategy].short_title, _setting(strategy, name, options)
    return f"{title} ({setting})" if setting else title


def _setting(strategy: str, name: str, options: Mapping[str, Any]) -> str:
    if name == strategy:
        return ""
    return setting_in_words(STRATEGIES[strategy].exchange_of(options), options) or name


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
