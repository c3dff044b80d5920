"""Experiments of a study: grids of cells, validated when they are parsed."""

import itertools
from collections.abc import Collection, Sequence
from typing import Annotated, NamedTuple, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from nodewise.core.cell import (
    FUNCTION,
    MAX_BATCH,
    MAX_NODES,
    AnyCluster,
    Cell,
    Extent,
    Feeding,
    Frozen,
    Input,
    Line,
    Name,
    Option,
    Spec,
)
from nodewise.core.user_function import own_dataset_name, relative_spec
from nodewise.models.registry import check_project, registry
from nodewise.results import studies
from nodewise.strategies import STRATEGIES

MOST_REPEATS = 100
EVIDENCE_REPEATS = 3
"""Launches of each point that a comparison needs to count as evidence; see the page Method."""

OWN_STUDY = "nodewise"  # of experiments that repeat no published study


def _is_a_study(name: str) -> str:
    allowed = [*studies.names(), OWN_STUDY]
    if name not in allowed:
        check_project()
        raise ValueError(f"{name!r} is not allowed, must be one of {', '.join(allowed)}")
    return name


StudyName = Annotated[Name, AfterValidator(_is_a_study)]
"""The name of a published study, a folder of data/published, or `OWN_STUDY`."""


class StrategyAxes(Frozen):
    """The node counts on which a strategy is measured, and its options.

    `strategy` is needed only if the key in `Experiment.strategies` is the study's own name for a
    strategy with certain options. Otherwise the key is the strategy.
    """

    nodes: list[Annotated[int, Field(ge=1, le=MAX_NODES)]] = Field(min_length=1)
    strategy: Name | None = None
    options: dict[Name, Option] = Field(default_factory=dict)


class OwnModel(Frozen):
    """A user's own model and its dataset.

    Args:
        build: spec of the function that builds the model.
        dataset: name of a dataset of this project, or spec of the function that loads the user's
            own data.
    """

    build: Spec
    dataset: Annotated[
        str, StringConstraints(pattern=rf"^([a-z][a-z0-9_]*|{FUNCTION})$", max_length=200)
    ]


class Trained(NamedTuple):
    """The fields of a cell that follow from its model."""

    model: str
    dataset: str
    build: str | None = None
    load: str | None = None


def own_trained(name: str, build: str, dataset: str) -> Trained:
    """Return what a user's own model is called and trains on; see `OwnModel`."""
    build, dataset = relative_spec(build), relative_spec(dataset)
    if ":" in dataset:
        return Trained(name, own_dataset_name(dataset), build, dataset)
    check_project()
    return Trained(name, dataset, build)


class Experiment(Feeding):
    """A grid of cells: models × strategies (each with its node counts) × batches × repeats.

    Args:
        models: names of models of this project.
        own_models: users' own models, by name.
        cluster: cluster of this experiment; None for the study's cluster.
    """

    title: Line = Field(max_length=120)
    study: StudyName
    models: list[Name] = Field(default_factory=list)
    own_models: dict[Name, OwnModel] = Field(default_factory=dict)
    strategies: dict[Name, StrategyAxes] = Field(min_length=1)
    batches: list[Annotated[int, Field(ge=1, le=MAX_BATCH)]] = Field(min_length=1)
    repeats: int = Field(default=1, ge=1, le=MOST_REPEATS)
    cluster: AnyCluster | None = None
    extent: Extent
    input: Input = "sharded"

    def strategy_of(self, variant: str) -> str:
        """Return the strategy that a key of `strategies` stands for."""
        return self.strategies[variant].strategy or variant

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        self._check_models()
        for variant in self.strategies:
            self._check_strategy(variant)
        check_unique("models", self.models)
        check_unique("batches", self.batches)
        return self

    def _check_models(self) -> None:
        if self.models:
            check_project()
        for model in self.models:
            _check_known("models", model, registry())
        taken = registry().keys() & self.own_models.keys()
        if taken:
            raise ValueError(f"own_models: {min(taken)!r} is a model of this project; rename yours")
        if not self.models and not self.own_models:
            raise ValueError("models: name at least one, or give own_models")
        if self.input == "own" and not all(one.load for one in self.trained()):
            raise ValueError(
                "input: own needs own_models, each with data of its own (path/file.py:f)"
            )

    def _check_strategy(self, variant: str) -> None:
        axes, name = self.strategies[variant], self.strategy_of(variant)
        _check_known(
            f"strategies.{variant}" + (".strategy" if axes.strategy else ""), name, STRATEGIES
        )
        if name != variant and variant in STRATEGIES:
            raise ValueError(f"strategies.{variant}: is the name of another strategy than {name}")
        strategy = STRATEGIES[name]
        for nodes in axes.nodes:
            try:
                options = strategy.checked(axes.options, nodes)
                strategy.fields(options, self.input)
                for batch, model in itertools.product(self.batches, [None, *self.models]):
                    options.check_training(nodes, batch, model, self.extent)
            except ValueError as error:
                raise ValueError(f"strategies.{variant}.{error}") from error
        check_unique(f"strategies.{variant}.nodes", axes.nodes)

    def trained(self) -> list[Trained]:
        """Return the models and their datasets."""
        named = [Trained(name, registry()[name].dataset) for name in self.models]
        own = self.own_models.items()
        return named + [own_trained(name, one.build, one.dataset) for name, one in own]

    def cells(self, name: str, cluster: AnyCluster, seed: int, time_limit_s: float) -> list[Cell]:
        """Return the cells of the grid, one for each model, strategy, nodes, batch and repeat.

        Args:
            name: name of the experiment.
            cluster: cluster on which the cells are measured.
            seed: seed of repeat 0. Each further repeat has the next seed.
            time_limit_s: time limit of a cell in seconds.
        """
        cells = []
        axes = [(variant, nodes) for variant, of in self.strategies.items() for nodes in of.nodes]
        for repeat, trained, batch, (variant, nodes) in itertools.product(
            range(self.repeats), self.trained(), self.batches, axes
        ):
            strategy = self.strategy_of(variant)
            options = STRATEGIES[strategy].checked(self.strategies[variant].options, nodes)
            cells.append(
                Cell(
                    **trained._asdict(),
                    study=self.study,
                    experiment=name,
                    strategy=strategy,
                    variant=variant if self.strategies[variant].strategy else None,
                    **STRATEGIES[strategy].fields(options, self.input),
                    cluster=cluster,
                    preprocessing_nodes=self.preprocessing_nodes,
                    batch=batch,
                    nodes=nodes,
                    repeat=repeat,
                    extent=self.extent,
                    seed=seed + repeat,
                    time_limit_s=time_limit_s,
                )
            )
        return cells


def _check_known(key: str, name: str, allowed: Collection[str]) -> None:
    if name not in allowed:
        raise ValueError(f"{key}: unknown name {name!r}; allowed: {', '.join(sorted(allowed))}")


def check_unique(key: str, values: Sequence[object]) -> None:
    """Raise a ValueError with the key's name if a value appears twice."""
    if len(set(values)) != len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise ValueError(f"{key}: {twice} appears twice")
