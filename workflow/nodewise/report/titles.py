"""Return the titles of experiments and strategies, for sentences, charts and tables."""

from nodewise.core.cell import Cell
from nodewise.strategies import STRATEGIES
from nodewise.study.config import Config, read_config


def experiment_titles(config: Config) -> dict[str, str]:
    """Return the titles of a study's experiments, by name.

    Experiments of records that were measured earlier get their titles from the configuration that
    the folder of these records is named after, if that configuration still exists.

    Raises:
        UserError: a configuration of earlier records is invalid.
    """
    configs = (*map(read_config, config.earlier_configs()), config)
    return {name: one.title for of in configs for name, one in of.experiments.items()}


def short_title(strategy: str) -> str:
    """Return the short title of a strategy; a name that is not registered is returned as it is."""
    return STRATEGIES[strategy].short_title if strategy in STRATEGIES else strategy


def title_of_strategy(cell: Cell) -> str:
    """Return the title of a cell's strategy, with the setting if it is a study's own variant."""
    title, setting = STRATEGIES[cell.strategy].short_title, title_of_variant(cell)
    return f"{title} ({setting})" if setting else title


def title_of_variant(cell: Cell) -> str:
    """Return the options of a cell's variant that differ from the strategy's defaults.

    If none do, the name that the study gives the variant is returned; without one, nothing.
    """
    if not cell.variant:
        return ""
    defaults = STRATEGIES[cell.strategy].options().model_dump()
    changed = [(name, value) for name, value in cell.options.items() if value != defaults.get(name)]
    return ", ".join(f"{name} {value}" for name, value in changed).replace("_", " ") or (
        cell.variant.replace("_", " ")
    )
