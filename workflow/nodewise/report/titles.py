"""Return the titles of experiments and strategies, for sentences, charts and tables."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from nodewise.core.cell import Cell
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
    return exchange.setting(cell.options) or cell.variant.replace("_", " ")


def _measured_before(config: Config) -> Iterator[Cell]:
    """Yield one cell of each variant in the records that were measured earlier, the first found."""
    files = config.record_files(Path())  # earlier records are in folders of their own
    firsts = {file.parents[2].name: file for file in reversed(files)}
    for name, file in firsts.items():
        if name not in STRATEGIES:
            yield read_record(file).cell
