"""The study's configuration: read, checked while it is parsed, and expanded into cells."""

import itertools
import random
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path, PurePosixPath
from types import UnionType
from typing import Annotated, Any, Literal, NamedTuple, Self, Union, get_args, get_origin

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator

from nodewise.cluster.api import LinkedSettings
from nodewise.cluster.host_settings import HostSettings
from nodewise.cluster.kinds.emulated import Emulated
from nodewise.core.cell import (
    CLUSTERS,
    MAX_BATCH,
    MAX_NODES,
    WATTS_PER_CORE,
    Cell,
    Cluster,
    ClusterSettings,
    Extent,
    Feeding,
    Frozen,
    Input,
    Line,
    ModelSpec,
    Name,
    Option,
    Spec,
)
from nodewise.core.errors import UserError
from nodewise.core.schema import first_error, location, read_tree, sorted_errors
from nodewise.core.user_function import own_dataset_name, parse_model_spec, parse_spec
from nodewise.models.facts import facts
from nodewise.models.registry import registry
from nodewise.strategies import STRATEGIES

DEFAULT = "config/study.yaml"
DATASETS = Path("data/datasets.yaml")
MOST_CELLS = 20_000
MOST_REPEATS = 100
"""Cells of a study: half a minute each makes a week."""

RECORDS = "*/*/*/batch~*/nodes~*/repeat~*.json"  # in a folder: named by the ids of their cells

Study = Literal["ntua", "asu", "strategies", "horovod", "survey", "nodewise"]


class Data(Frozen):
    """Where examples may come from. `official` forbids generated stand-ins."""

    source: Literal["any", "official"] = "any"


class StrategyAxes(Frozen):
    """The node counts that one strategy is measured on, and its options.

    `strategy` is the key that this stands under, unless that is a name of one's own for a strategy
    with certain options.
    """

    nodes: list[Annotated[int, Field(ge=1, le=MAX_NODES)]] = Field(min_length=1)
    strategy: Name | None = None
    options: dict[Name, Option] = Field(default_factory=dict)


def _names_a_dataset(text: str) -> str:
    try:
        _DATASET.validate_python(text)
    except ValidationError:
        raise ValueError(
            f"{text!r:.80} is not allowed, must be a dataset's name, path/file.py:function or "
            "package.module:function"
        ) from None
    return text


_DATASET: TypeAdapter[str] = TypeAdapter(Name | Spec)


class OwnModel(Frozen):
    """A user's own model: what builds it, or its file, and a dataset, known or the user's own."""

    build: ModelSpec
    dataset: Annotated[str, AfterValidator(_names_a_dataset)]


class Experiment(Feeding):
    """A grid of cells: models × strategies (each with its nodes) × batches × repeats.

    The models are the named ones of this project and the user's own. `cluster` is the study's own
    unless the experiment names another.
    """

    title: Line = Field(max_length=120)
    study: Study
    models: list[Name] = Field(default_factory=list)
    own_models: dict[Name, OwnModel] = Field(default_factory=dict)
    strategies: dict[Name, StrategyAxes] = Field(min_length=1)
    batches: list[Annotated[int, Field(ge=1, le=MAX_BATCH)]] = Field(min_length=1)
    repeats: int = Field(default=1, ge=1, le=MOST_REPEATS)
    cluster: Cluster | None = None
    extent: Extent
    input: Input = "sharded"

    @property
    def size(self) -> int:
        """How many cells the grid has."""
        models = len(self.models) + len(self.own_models)
        nodes = sum(len(axes.nodes) for axes in self.strategies.values())
        return models * nodes * len(self.batches) * self.repeats

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        _check_size(self.size)
        for model in self.models:
            _known("models", model, registry())
        taken = registry().keys() & self.own_models.keys()
        if taken:
            raise ValueError(f"own_models: {min(taken)!r} is a model of this project; rename yours")
        if not self.models and not self.own_models:
            raise ValueError("models: name at least one, or give own_models")
        for variant, axes in self.strategies.items():
            if axes.strategy is None and variant not in STRATEGIES:
                allowed = ", ".join(sorted(STRATEGIES))
                raise ValueError(
                    f"strategies: unknown name {variant!r}; allowed: {allowed}, or a name of your "
                    "own with strategy: one of them"
                )
            _known(f"strategies.{variant}.strategy", axes.strategy or variant, STRATEGIES)
            if axes.strategy not in (None, variant) and variant in STRATEGIES:
                raise ValueError(
                    f"strategies.{variant}: is the name of another strategy than {axes.strategy}"
                )
            entry = STRATEGIES[axes.strategy or variant]
            if self.input != "sharded" and entry.whole_batches:
                raise ValueError(f"input: must be sharded for {variant}, which cuts no batch")
            for nodes in axes.nodes:
                try:
                    options = entry.checked(axes.options, nodes)
                    options.check_extent(self.extent)
                    for batch, trained in itertools.product(self.batches, [None, *self.models]):
                        options.check_training(nodes, batch, trained)
                except ValueError as error:
                    raise ValueError(f"strategies.{variant}.{error}") from error
            _no_duplicates(f"strategies.{variant}.nodes", axes.nodes)
        _no_duplicates("models", self.models)
        _no_duplicates("batches", self.batches)
        return self

    def check_cluster(self, cluster: Cluster) -> None:
        """Check that this can be measured on `cluster`.

        Raises:
            ValueError: it cannot; the text starts with the key that is wrong.
        """
        most = max(max(axes.nodes) for axes in self.strategies.values())
        in_one_process = [
            variant
            for variant, axes in self.strategies.items()
            if STRATEGIES[axes.strategy or variant].one_process
        ]
        try:
            cluster.check_nodes(most, in_one_process)
        except ValueError as error:
            raise ValueError(f"cluster.{error}") from error

    def trained(self) -> list["Trained"]:
        """Return what the models are and what they train on."""
        known = [Trained(name, registry()[name].dataset) for name in self.models]
        return known + [
            Trained(name, own_dataset_name(own.dataset), own.build, own.dataset)
            if ":" in own.dataset
            else Trained(name, own.dataset, own.build)
            for name, own in self.own_models.items()
        ]


class Trained(NamedTuple):
    """The fields of a cell that its model decides."""

    model: str
    dataset: str
    build: str | None = None
    load: str | None = None


def _known(key: str, name: str, allowed: Collection[str]) -> None:
    if name not in allowed:
        raise ValueError(f"{key}: unknown name {name!r}; allowed: {', '.join(sorted(allowed))}")


def _check_size(cells: int) -> None:
    if cells > MOST_CELLS:
        raise ValueError(f"{cells:,} cells are not allowed, a study has at most {MOST_CELLS:,}")


def _no_duplicates(key: str, values: Sequence[object]) -> None:
    if len(set(values)) != len(values):
        twice = next(value for value in values if values.count(value) > 1)
        raise ValueError(f"{key}: {twice} is there twice")


def _inside_the_project(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError("must be a path inside the project, such as data/records/MACHINE/STUDY")
    return path


InsidePath = Annotated[Line, AfterValidator(_inside_the_project)]


class Runs(Frozen):
    """Folders with the records of two runs of one study, to tell what changed between them."""

    old: InsidePath
    new: InsidePath


class Config(Frozen):
    """A whole study: either `experiments` to measure, or `records` of studies measured before.

    `records` are folders; each holds the records of one study, and its `calibration.json` if any.
    `curves` are files with curves that others measured, in any format that can be imported.
    """

    name: Name
    title: Line = Field(max_length=120)
    data: Data = Data()
    cluster: Cluster = Emulated()
    seed: int = Field(default=1, ge=0, lt=2**31 - MOST_REPEATS)
    cell_time_limit_s: float = Field(default=900, gt=0, le=86_400)
    watts_per_core: float = Field(default=WATTS_PER_CORE, gt=0, le=10_000)
    experiments: dict[Name, Experiment] = Field(default_factory=dict, min_length=1)
    records: list[InsidePath] = Field(default_factory=list, min_length=1)
    changes: Runs | None = None
    curves: list[InsidePath] = Field(default_factory=list)

    @model_validator(mode="after")
    def _measured_now_or_before(self) -> Self:
        if bool(self.experiments) == bool(self.records):
            raise ValueError("give either experiments or records, and not both")
        measuring = self.model_fields_set & {"data", "cluster", "seed", "cell_time_limit_s"}
        if self.records and measuring:
            raise ValueError(f"{min(measuring)}: nothing is measured here; leave it out")
        _no_duplicates("records", self.records)
        _no_duplicates("curves", self.curves)
        _check_size(sum(experiment.size for experiment in self.experiments.values()))
        return self

    @model_validator(mode="after")
    def _clusters_fit(self) -> Self:
        for name, experiment in self.experiments.items():
            try:
                experiment.check_cluster(experiment.cluster or self.cluster)
            except ValueError as error:
                raise ValueError(f"experiments.{name}.{error}") from error
        return self

    @model_validator(mode="after")
    def _clusters_differ_in_name(self) -> Self:
        """Check that curves of two clusters of hosts are told apart: by what these are called."""
        named = {self.cluster.label: self.cluster}
        for name, experiment in self.experiments.items():
            own = experiment.cluster
            if isinstance(own, HostSettings) and named.setdefault(own.label, own) != own:
                raise ValueError(
                    f"experiments.{name}.cluster.name: another cluster with other settings is "
                    f"called {own.name!r}, too; give each its own name"
                )
        return self

    def record_files(self, measured: Path) -> list[Path]:
        """Return the record file of every cell: in the folder `measured`, or measured before.

        Raises:
            UserError: a folder of `records` holds none.
        """
        if not self.records:
            return [measured / f"{cell.id}.json" for cell in self.cells()]
        return [file for folder in self.records for file in _records_in(folder)]

    def changes_files(self) -> list[Path]:
        """Return the records of both runs of `changes`, none if no two are compared.

        Raises:
            UserError: a folder holds none.
        """
        runs = (self.changes.old, self.changes.new) if self.changes else ()
        return [file for folder in runs for file in _records_in(folder)]

    def calibration_files(self) -> list[Path]:
        """Return the calibrations that lie beside `records`."""
        files = [Path(folder, "calibration.json") for folder in self.records]
        return [file for file in files if file.is_file()]

    def noise_scale_files(self) -> list[Path]:
        """Return the noise scales that lie beside `records`."""
        return [file for at in self.records for file in sorted(Path(at).glob("noise_scale/*.json"))]

    def cells(self) -> list[Cell]:
        """Return every cell to measure, in the order of measuring.

        Experiments are measured one after the other: a study that is cut off has some of them
        whole. A repeat is a fresh launch with a seed of its own. All of repeat 0 of an experiment
        comes before repeat 1, and within a repeat the order is random (by the seed): what drifts
        on the machine meanwhile then moves no node count more than another.
        """
        chance = random.Random(self.seed)  # noqa: S311 (an order, not a secret)
        cells = []
        for name, experiment in self.experiments.items():
            of_experiment = []
            axes = [(s, n) for s, grid in experiment.strategies.items() for n in grid.nodes]
            for repeat, trained, batch, (variant, nodes) in itertools.product(
                range(experiment.repeats), experiment.trained(), experiment.batches, axes
            ):
                axis = experiment.strategies[variant]
                strategy = axis.strategy or variant
                options = STRATEGIES[strategy].checked(axis.options, nodes)
                of_experiment.append(
                    Cell(
                        **trained._asdict(),
                        study=experiment.study,
                        experiment=name,
                        strategy=strategy,
                        variant=variant if axis.strategy else None,
                        **STRATEGIES[strategy].fields(options, experiment.input),
                        cluster=experiment.cluster or self.cluster,
                        preprocessing_nodes=experiment.preprocessing_nodes,
                        batch=batch,
                        nodes=nodes,
                        repeat=repeat,
                        extent=experiment.extent,
                        seed=self.seed + repeat,
                        time_limit_s=self.cell_time_limit_s,
                    )
                )
            chance.shuffle(of_experiment)
            cells += sorted(of_experiment, key=lambda cell: cell.repeat)
        return cells

    def calibrated_cluster(self) -> tuple[LinkedSettings, int] | None:
        """Return the settings with links that most cells have, and their most nodes; None of none.

        A straggler counts as a cell of the cluster that it would be without its slow node, several
        workers in a node as so many nodes: the link to the others is what is calibrated.
        """
        cells = [
            (cell.cluster.calibrated(), cell.nodes)
            for cell in self.cells()
            if isinstance(cell.cluster, LinkedSettings)
        ]
        if not cells:
            return None
        ((label, _),) = Counter(settings.label for settings, _ in cells).most_common(1)
        alike = [(settings, nodes) for settings, nodes in cells if settings.label == label]
        return alike[0][0], max(nodes for _, nodes in alike)


def _records_in(folder: str) -> list[Path]:
    found = sorted(Path(folder).glob(RECORDS))
    if not found:
        raise UserError(f"{folder}: holds no record of a cell ({RECORDS})")
    return found


def read_config(path: Path) -> Config:
    """Read and check a study's configuration.

    Raises:
        UserError: one line that names the file, the key and what is allowed there.
    """
    try:
        tree = read_tree(path)
        return Config.model_validate(tree)
    except ValidationError as error:
        raise UserError(f"{path}: {_message(error, tree)}") from error


def _message(error: ValidationError, tree: object) -> str:
    """Return the first error; at an unknown key, which keys are known there."""
    first = sorted_errors(error)[0]
    if first["type"] != "extra_forbidden":
        return first_error(error)
    allowed = ", ".join(sorted(_fields_at(first["loc"][:-1], tree)))
    return f"{location(first)}: unknown key; allowed here: {allowed}"


def _fields_at(location: tuple[int | str, ...], tree: Any) -> dict[str, Any]:  # noqa: ANN401
    """Return the fields of the model at `location` of a config, which was read as `tree`."""
    at: Any = Config
    for part in location:
        model = _model(at, tree)
        # the annotation of a field, or of what a dict or a list holds
        at = model.model_fields[str(part)].annotation if model else get_args(at)[-1]
        tree = tree[part]
    model = _model(at, tree)
    assert model is not None  # noqa: S101 (only a model has keys that it does not know)
    return dict(model.model_fields)


def _model(annotation: object, value: Any) -> type[Frozen] | None:  # noqa: ANN401
    """Return the model that an annotation asks of `value`, if it asks for one."""
    if get_origin(annotation) in (Union, UnionType, Annotated):
        found = (_model(part, value) for part in get_args(annotation))
        return next(filter(None, found), None)
    if not isinstance(annotation, type) or not issubclass(annotation, Frozen):
        return None
    return CLUSTERS[value["kind"]] if annotation is ClusterSettings else annotation


def check_files_exist(study: Config) -> None:
    """Check that what a study needs is there, and that a step has enough examples.

    User code is not run, so the number of examples of user data is not checked.

    Raises:
        UserError: a function, a dataset or a file is missing, or a step takes more examples than
            there are, and the message names the experiment; or a model of the project is not
            described.
    """
    for model in registry():
        facts(model)
    for path in study.curves:
        if not Path(path).is_file():
            raise UserError(f"curves: {path}: there is no such file")
    for name, experiment in study.experiments.items():
        try:
            _check_files(experiment)
        except UserError as error:
            raise UserError(f"experiments.{name}: {error}") from error


def _check_files(experiment: Experiment) -> None:
    from nodewise.data.registry import find  # loads NumPy, which takes time

    for trained in experiment.trained():
        if trained.build:
            parse_model_spec(trained.build)
        if trained.load:
            parse_spec(trained.load)
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
