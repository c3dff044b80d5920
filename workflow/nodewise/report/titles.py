"""The titles of experiments, from the configurations of the studies that measured them."""

from nodewise.study.config import Config, read_config


def experiment_titles(config: Config) -> dict[str, str]:
    """Return the titles of a study's experiments, by name.

    Records of studies measured before have theirs in the configuration that their folder is named
    after, if that is still there.

    Raises:
        UserError: such a configuration is invalid.
    """
    read = [read_config(path) for path in config.earlier_configs()]
    return {name: one.title for of in (*read, config) for name, one in of.experiments.items()}
