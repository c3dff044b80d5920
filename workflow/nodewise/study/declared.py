"""What a configuration names, and what only files beside it can tell: functions, datasets."""

from pathlib import Path

from nodewise.core.errors import UserError
from nodewise.core.user_function import parse_spec
from nodewise.study.config import Config, Experiment

DATASETS = Path("data/datasets.yaml")


def check_declared(study: Config) -> None:
    """Check that what the study names is there, and that its datasets have enough for a step.

    None of a user's own code is run, so how many examples own data has is not known.

    Raises:
        UserError: a function or a dataset is not there, or a step takes more examples than there
            are; the text names the experiment.
    """
    for name, experiment in study.experiments.items():
        try:
            _check(experiment)
        except UserError as error:
            raise UserError(f"experiments.{name}: {error}") from error


def _check(experiment: Experiment) -> None:
    from nodewise.data.registry import find  # NumPy; without experiments nobody waits for it

    for trained in experiment.trained():
        for spec in filter(None, (trained.build, trained.load)):
            parse_spec(spec)
        if trained.load:
            continue
        examples = find(DATASETS, trained.dataset).train_examples
        nodes = max(max(axes.nodes) for axes in experiment.strategies.values())
        batch = max(experiment.batches)
        if batch * nodes > examples:
            raise UserError(
                f"batches: a step of {nodes} nodes takes {batch * nodes:,} examples; "
                f"{trained.dataset} has {examples:,}"
            )
