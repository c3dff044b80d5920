"""Read a study's configuration, validate it and expand it into cells."""

import random
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, model_validator

from nodewise.cluster.api import LinkedSettings
from nodewise.cluster.kinds.emulated import Emulated
from nodewise.core.cell import WATTS_PER_CORE, AnyCluster, Cell, Frozen, Line, Name
from nodewise.core.errors import UserError
from nodewise.core.schema import first_error, read_tree
from nodewise.core.user_function import parse_spec
from nodewise.models.facts import facts, own_description, own_models
from nodewise.models.registry import registry
from nodewise.study.experiment import MOST_REPEATS, Experiment, check_unique

DEFAULT = "config/study.yaml"
CONFIGS = Path("config")
DATASETS = Path("data/datasets.yaml")
PREPARED = Path("results/datasets")
CALIBRATION = Path("calibration", "calibration.json")
RECORDS = "*/*/*/batch~*/nodes~*/repeat~*.json"  # records in a folder, named by their cells' ids
_SMALL_FLOPS = 100_000_000  # of training an example, in models whose noise scale is measured


class Data(Frozen):
    """Where examples may come from. `official` forbids synthetic data."""

    source: Literal["any", "official"] = "any"


def _inside_the_project(path: str) -> str:
    if PurePosixPath(path).is_absolute() or ".." in PurePosixPath(path).parts:
        raise ValueError("must be a path inside the project, such as data/records/MACHINE/STUDY")
    return path


InsidePath = Annotated[Line, AfterValidator(_inside_the_project)]


class Runs(Frozen):
    """Folders with the records of two runs of one study, which are compared."""

    old: InsidePath
    new: InsidePath


class Config(Frozen):
    """A whole study: either `experiments` to measure, or `records` of earlier studies.

    Args:
        experiments: experiments to measure, by name.
        records: folders. Each contains the records of one study, and its `calibration.json` if
            there is one.
        left_out: experiments of `records` that are no results, such as tests of examples. Pages
            leave them out; tables and downloads have them.
        changes: two runs to compare.
        curves: files with curves that others measured, in any format that can be imported.
    """

    name: Name
    title: Line = Field(max_length=120)
    data: Data = Data()
    cluster: AnyCluster = Emulated()
    seed: int = Field(default=1, ge=0, lt=2**31 - MOST_REPEATS)
    cell_time_limit_s: float = Field(default=900, gt=0, le=86_400)
    watts_per_core: float = Field(default=WATTS_PER_CORE, gt=0, le=10_000)
    experiments: dict[Name, Experiment] = Field(default_factory=dict, min_length=1)
    records: list[InsidePath] = Field(default_factory=list, min_length=1)
    left_out: list[Name] = Field(default_factory=list)
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
        return self

    @model_validator(mode="after")
    def _clusters_fit(self) -> Self:
        """Check that clusters fit experiments, and that different ones have different labels."""
        labelled = {self.cluster.label: self.cluster}
        for name, experiment in self.experiments.items():
            cluster = experiment.cluster or self.cluster
            cells = experiment.cells(name, cluster, self.seed, self.cell_time_limit_s)
            try:
                cluster.check_nodes(cells)
            except ValueError as error:
                raise ValueError(f"experiments.{name}.cluster.{error}") from error
            if labelled.setdefault(cluster.label, cluster) != cluster:
                raise ValueError(
                    f"experiments.{name}.cluster.name: another cluster with other settings is "
                    f"called {cluster.label!r}, too; give each its own name"
                )
        return self

    @property
    def results(self) -> Path:
        """Folder of the workflow's results for this study."""
        return Path("results", self.name)

    def record_files(self) -> list[Path]:
        """Return the record files of all cells.

        Raises:
            UserError: a folder of `records` contains no records.
        """
        if not self.records:
            return [self.results / "records" / f"{cell.id}.json" for cell in self.cells()]
        return [file for folder in self.records for file in _records_in(folder)]

    def earlier_configs(self) -> list[Path]:
        """Return the existing configurations after which the folders of `records` are named.

        They contain the titles of the measured experiments.
        """
        named = [CONFIGS / f"{Path(folder).name}.yaml" for folder in self.records]
        return [file for file in named if file.is_file()]

    def changes_files(self) -> list[Path]:
        """Return the records of both runs of `changes`; raise UserError if a run has none."""
        runs = (self.changes.old, self.changes.new) if self.changes else ()
        return [file for folder in runs for file in _records_in(folder)]

    def beside_records(self, pattern: str) -> list[Path]:
        """Return the files in the folders of `records` that match a pattern."""
        return [file for folder in self.records for file in sorted(Path(folder).glob(pattern))]

    def calibrations(self) -> list[Path]:
        """Return the file of its own calibration if there is one, else those of `records`."""
        own = self.results / CALIBRATION
        measured = own.is_file() and self.calibrated_cluster() is not None
        return [own] if measured else self.beside_records(CALIBRATION.name)

    def noise_scales(self) -> list[Path]:
        """Return the files of the noise scales of its small models, or those of `records`.

        If several folders have one of the same model, the first one counts.
        """
        models = sorted({cell.model for cell in self.cells() if not cell.build})
        small = [one for one in models if facts(one).training_flops_per_example <= _SMALL_FLOPS]
        own = [self.results / f"noise_scale/{name}.json" for name in small]
        found = own or self.beside_records("noise_scale/*.json")
        by_model = {path.stem: path for path in reversed(found)}
        return [by_model[name] for name in sorted(by_model)]

    def own_descriptions(self) -> dict[str, Path]:
        """Return the files that describe users' own models, by their names in the study."""
        own = {name: own_description(cell) for name, cell in own_models(self.cells()).items()}
        return own | {path.stem: path for path in self.beside_records("models/*.json")}

    def cells(self) -> list[Cell]:
        """Return all cells in the order in which they are measured.

        Experiments come one after another, so that an interrupted study has some complete ones.
        Each repeat is a new launch with its own seed. Within an experiment, all cells of repeat 0
        come before those of repeat 1. Within a repeat the order is random, given by the study's
        seed, so that a drift of the machine affects all node counts alike.
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
        """Return the settings of the first cell with links, and the most nodes of such cells.

        Only the links between machines are calibrated: a slow node is ignored, and workers that
        share a machine count as machines.
        """
        linked = [
            (cell.cluster.calibrated(), cell.nodes)
            for cell in self.cells()
            if isinstance(cell.cluster, LinkedSettings)
        ]
        if not linked:
            return None
        first = linked[0][0]
        return first, max(nodes for settings, nodes in linked if settings == first)


def _records_in(folder: str) -> list[Path]:
    found = sorted(Path(folder).glob(RECORDS))
    if not found:
        raise UserError(f"{folder}: holds no record of a cell ({RECORDS})")
    return found


def read_config(path: Path) -> Config:
    """Read and check a study's configuration.

    Raises:
        UserError: the file is not valid. The message is one line with the file, the key and what is
            allowed there.
    """
    try:
        return Config.model_validate(read_tree(path))
    except ValidationError as error:
        unknown = any(one["type"] == "extra_forbidden" for one in error.errors())
        where = "; config/README.md lists the keys" if unknown else ""
        raise UserError(f"{path}: {first_error(error)}{where}") from error


def check_files_exist(study: Config) -> None:
    """Check that all files of a study exist. User code is not run.

    Raises:
        UserError: a function, a dataset or a file is missing, or a model of the project has no
            description. Where an experiment is the cause, the message names it.
    """
    from nodewise.data.registry import Entry, find  # slow to import, because of NumPy

    for model in registry():
        facts(model)
    for path in study.curves:
        if not Path(path).is_file():
            raise UserError(f"curves: {path}: there is no such file")
    for name, experiment in study.experiments.items():
        try:
            for trained in experiment.trained():
                if trained.build:
                    parse_spec(trained.build)
                if trained.load:
                    parse_spec(trained.load)
                else:
                    find(DATASETS, trained.dataset, Entry)
        except UserError as error:
            raise UserError(f"experiments.{name}: {error}") from error
