"""The study's configuration: read, checked while it is parsed, and expanded into cells."""

import random
from collections import Counter
from pathlib import Path, PurePosixPath
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

from pydantic import AfterValidator, Field, ValidationError, model_validator

from nodewise.cluster.api import LinkedSettings
from nodewise.cluster.host_settings import HostSettings
from nodewise.cluster.kinds.emulated import Emulated
from nodewise.core.cell import (
    CLUSTERS,
    WATTS_PER_CORE,
    Cell,
    Cluster,
    ClusterSettings,
    Frozen,
    Line,
    Name,
)
from nodewise.core.errors import UserError
from nodewise.core.schema import first_error, location, read_tree, sorted_errors
from nodewise.core.user_function import parse_model_spec, parse_spec
from nodewise.models.facts import facts
from nodewise.models.registry import registry
from nodewise.results.manifest import MANIFEST
from nodewise.study.experiment import MOST_REPEATS, Experiment, check_size, check_unique

DEFAULT = "config/study.yaml"
CONFIGS = Path("config")
DATASETS = Path("data/datasets.yaml")
RECORDS = "*/*/*/batch~*/nodes~*/repeat~*.json"  # in a folder: named by the ids of their cells


class Data(Frozen):
    """Where examples may come from. `official` forbids generated stand-ins."""

    source: Literal["any", "official"] = "any"


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
        check_unique("records", self.records)
        check_unique("curves", self.curves)
        check_size(sum(experiment.size for experiment in self.experiments.values()))
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

    @property
    def results(self) -> Path:
        """The folder in which the workflow puts what it makes of the study."""
        return Path("results", self.name)

    def record_files(self, measured: Path) -> list[Path]:
        """Return the record file of every cell: in the folder `measured`, or measured before.

        Raises:
            UserError: a folder of `records` holds none.
        """
        if not self.records:
            return [measured / f"{cell.id}.json" for cell in self.cells()]
        return [file for folder in self.records for file in _records_in(folder)]

    def earlier_configs(self) -> list[Path]:
        """Return the configurations that the folders of `records` are named after, if they exist.

        The titles of the experiments that were measured stand there.
        """
        named = [CONFIGS / f"{Path(folder).name}.yaml" for folder in self.records]
        return [file for file in named if file.is_file()]

    def changes_files(self) -> list[Path]:
        """Return the records of both runs of `changes`, none if no two are compared.

        Raises:
            UserError: a folder holds none.
        """
        runs = (self.changes.old, self.changes.new) if self.changes else ()
        return [file for folder in runs for file in _records_in(folder)]

    def calibration_files(self) -> list[Path]:
        """Return the calibrations that lie beside `records`."""
        return self._beside_records("calibration.json")

    def manifest_files(self) -> list[Path]:
        """Return the manifests that lie beside `records`."""
        return self._beside_records(MANIFEST)

    def own_model_files(self) -> list[Path]:
        """Return the descriptions of users' own models that lie beside `records`."""
        return self._beside_records("models/*.json")

    def noise_scale_files(self) -> list[Path]:
        """Return the noise scales that lie beside `records`."""
        return self._beside_records("noise_scale/*.json")

    def _beside_records(self, pattern: str) -> list[Path]:
        return [file for folder in self.records for file in sorted(Path(folder).glob(pattern))]

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
            cluster = experiment.cluster or self.cluster
            grid = experiment.cells(name, cluster, self.seed, self.cell_time_limit_s)
            chance.shuffle(grid)
            cells += sorted(grid, key=lambda cell: cell.repeat)
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
    type_: Any = Config
    for part in location:
        if get_origin(type_) in (dict, list):
            annotation = get_args(type_)[-1]  # of what it holds
        else:
            annotation = type_.model_fields[part].annotation
        tree = tree[part]
        type_ = _type_of(annotation, tree)
    return dict(type_.model_fields)


def _type_of(annotation: Any, value: Any) -> Any:  # noqa: ANN401
    """Return what an annotation asks of `value`: a model, or a dict or a list of something."""
    if get_origin(annotation) in (Union, UnionType, Annotated):  # X | None, or X and checks of it
        return _type_of(get_args(annotation)[0], value)
    if annotation is ClusterSettings:
        return CLUSTERS.get(value.get("kind"), ClusterSettings)
    return annotation


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
            continue
        examples = find(DATASETS, trained.dataset).train_examples
        step = max(experiment.batches) * experiment.most_nodes
        if step > examples:
            raise UserError(
                f"batches: a step of {experiment.most_nodes} nodes takes {step:,} examples; "
                f"{trained.dataset} has {examples:,}"
            )
