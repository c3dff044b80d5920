"""Read and check the published numbers of the reproduced studies, in data/published."""

import csv
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import pandas as pd
from pydantic import Field, StringConstraints, ValidationError, model_validator

from nodewise.core.cell import Frozen, Name
from nodewise.core.errors import UserError
from nodewise.core.schema import first_error
from nodewise.core.units import counted
from nodewise.results.columns import PUBLISHED, PUBLISHED_RUNS, SINGLE
from nodewise.results.importers import IMPORTERS
from nodewise.results.quantities import Seconds, Share
from nodewise.results.table_files import typed

FOLDER = Path(__file__).parents[4] / "data" / "published"
BYTES_PER_WEIGHT = 4  # float32
TRAINING_EXAMPLES = 60_000  # of both MNIST and Fashion-MNIST

Whole = Annotated[int, Field(ge=1)]
Duration = Annotated[Seconds, Field(gt=0)]
Text = Annotated[str, StringConstraints(min_length=1)]
Row = TypeVar("Row", bound=Frozen)


class NtuaModel(Frozen):
    """A row of Table I: one model with its data set."""

    model: Name
    dataset: Name
    epochs: Whole
    initial_batch_sizes: str = Field(pattern=r"^[1-9]\d*(;[1-9]\d*)*$")
    trainable_weights: Whole
    total_weights: Whole
    training_examples: Whole
    input_shape: Text

    @property
    def batches(self) -> list[str]:
        """The batches per worker with which the model was trained."""
        return self.initial_batch_sizes.split(";")

    @model_validator(mode="after")
    def _trainable_are_some_of_all(self) -> Self:
        if self.trainable_weights > self.total_weights:
            raise ValueError("trainable_weights must not exceed total_weights")
        return self


class NtuaRun(Frozen):
    """A row of Table II: one training, with its printed labels."""

    model: Name
    dataset: Name
    batch_per_worker: Whole
    nodes: Whole
    training_time_s: Duration
    training_accuracy: Share
    printed_dataset: Text
    printed_batch: Whole


class NtuaClaim(Frozen):
    """A prediction of Figure 28. `time_saved` is a share of the time on one node."""

    claim: Literal["compromise", "saturation"]
    nodes: Whole
    time_saved: Share | None = None


class MirroredRun(Frozen):
    """A training on one or two GPUs of one machine."""

    strategy: Name
    devices: Whole
    batch_per_worker: Whole
    epochs: Whole
    steps_per_epoch: Whole
    step_time_ms: Duration
    total_time_s: Duration
    final_training_accuracy: Share


class StrategyRun(Frozen):
    """A training of the same network with one of four strategies."""

    strategy: Name
    printed_name: Text
    batch_per_worker: Whole | None = None
    training_time_s: Duration
    epochs: Whole
    training_accuracy: Share | None = None
    test_accuracy: Share | None = None


class HorovodRun(Frozen):
    """A training on one, two or four GPUs."""

    strategy: Name
    gpus: Whole
    batch_per_worker: Whole
    epoch_time_s: Duration
    step_time_ms: Duration
    accuracy: Share
    epochs: Whole


TABLES: dict[str, type[Frozen]] = {
    "ntua_table1": NtuaModel,
    "ntua_table2": NtuaRun,
    "ntua_figure28": NtuaClaim,
    "asu_mirrored_mnist": MirroredRun,
    "fashion_mlp_strategies": StrategyRun,
    "horovod_mnist_gpus": HorovodRun,
}


def read(name: str, folder: Path = FOLDER) -> pd.DataFrame:
    """Return one of `TABLES` as printed, one row per line, with the columns of its row class.

    Raises:
        UserError: there is no such table, or a line is invalid. The message names the first error.
    """
    if name not in TABLES:
        raise UserError(f"{name!r} is not a published table; there are: {', '.join(TABLES)}")
    return pd.DataFrame([row.model_dump() for row in _read_rows(folder, name, TABLES[name])])


def ntua(folder: Path = FOLDER) -> pd.DataFrame:
    """Return the table `published`: Table II of the NTUA study, joined with its Table I.

    `steps` is epochs × whole steps per epoch, floor(examples / (nodes × batch)). `step_time_s` is
    training time over steps. `payload_bytes` is the size of the gradient, 4 bytes per trainable
    weight.

    Raises:
        UserError: a line is invalid, a training appears twice, or its model or batch is not in
            Table I.
    """
    models: dict[tuple[str, str], NtuaModel] = {}
    for model in _read_rows(folder, "ntua_table1", NtuaModel):
        if models.setdefault((model.model, model.dataset), model) is not model:
            raise UserError(f"{folder / 'ntua_table1.csv'}: {model.model} appears twice")
    rows: dict[tuple[str, int, int], dict[str, Any]] = {}
    for run in _read_rows(folder, "ntua_table2", NtuaRun):
        label = f"{run.model} at batch {run.batch_per_worker} on {run.nodes} nodes"
        location = f"{folder / 'ntua_table2.csv'}: {label}"
        trained = models.get((run.model, run.dataset))
        if trained is None or str(run.batch_per_worker) not in trained.batches:
            raise UserError(f"{location}: ntua_table1.csv has no such model, data set and batch")
        if (run.model, run.batch_per_worker, run.nodes) in rows:
            raise UserError(f"{location}: appears twice")
        rows[run.model, run.batch_per_worker, run.nodes] = _published_row(run, trained, location)
    return typed(rows.values(), PUBLISHED)


def runs(folder: Path = FOLDER) -> pd.DataFrame:
    """Return the table `published_runs`: the trainings of the ASU, strategies and Horovod studies.

    `examples_per_s` is training examples × epochs over training time. If a study prints epoch
    times, training time is epoch time × epochs. `speedup` is relative to the study's own training
    on one node or device. For the Horovod study, both come from its step times because its epoch
    times are rounded to seconds. The strategies study does not print the number of nodes; `nodes`
    is the smallest number that each strategy needs.

    Raises:
        UserError: a line is invalid.
    """
    rows = [*_asu(folder), *_strategies(folder), *_horovod(folder)]
    ones = {row["study"]: row["training_time_s"] for row in rows if row["nodes"] == 1}
    return typed(
        (
            {
                "examples_per_s": TRAINING_EXAMPLES * row["epochs"] / row["training_time_s"],
                "speedup": ones[row["study"]] / row["training_time_s"],
                "kind": "published",
            }
            | row
            for row in rows
        ),
        PUBLISHED_RUNS,
    )


def _asu(folder: Path) -> Iterator[dict[str, Any]]:
    for run in _read_rows(folder, "asu_mirrored_mnist", MirroredRun):
        yield _MNIST | {
            "study": "asu",
            "strategy": run.strategy,
            "printed_name": counted(run.devices, "GPU"),
            "nodes": run.devices,
            "batch_per_worker": run.batch_per_worker,
            "step_time_s": run.step_time_ms / 1000,
            "epochs": run.epochs,
            "training_time_s": run.total_time_s,
            "training_accuracy": run.final_training_accuracy,
        }


def _strategies(folder: Path) -> Iterator[dict[str, Any]]:
    for run in _read_rows(folder, "fashion_mlp_strategies", StrategyRun):
        yield run.model_dump() | {
            "study": "strategies",
            "model": "fashion_mlp",
            "dataset": "fashion_mnist",
            "nodes": 1 if run.strategy == SINGLE else 2,
        }


def _horovod(folder: Path) -> Iterator[dict[str, Any]]:
    trained = _read_rows(folder, "horovod_mnist_gpus", HorovodRun)
    step_ms = {run.gpus: run.step_time_ms for run in trained}
    for run in trained:
        yield _MNIST | {
            "study": "horovod",
            "strategy": run.strategy,
            "printed_name": counted(run.gpus, "GPU"),
            "nodes": run.gpus,
            "batch_per_worker": run.batch_per_worker,
            "step_time_s": run.step_time_ms / 1000,
            "epochs": run.epochs,
            "training_time_s": run.epoch_time_s * run.epochs,
            "examples_per_s": 1000 * run.gpus * run.batch_per_worker / run.step_time_ms,
            "speedup": run.gpus * step_ms[1] / run.step_time_ms,
            "training_accuracy": run.accuracy,
        }


_MNIST = {"model": "mnist_cnn", "dataset": "mnist"}


def _published_row(run: NtuaRun, trained: NtuaModel, location: str) -> dict[str, Any]:
    global_batch = run.nodes * run.batch_per_worker
    steps = trained.training_examples // global_batch * trained.epochs
    if steps == 0:
        raise UserError(f"{location}: {trained.training_examples} examples are not one whole step")
    return run.model_dump() | {
        "study": "ntua",
        "epochs": trained.epochs,
        "steps": steps,
        "step_time_s": run.training_time_s / steps,
        "payload_bytes": BYTES_PER_WEIGHT * trained.trainable_weights,
        "kind": "published",
    }


def _read_rows(folder: Path, name: str, row_type: type[Row]) -> list[Row]:
    """Return the checked rows of a table. Empty values count as missing."""
    path = folder / f"{name}.csv"
    rows = []
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = csv.DictReader(file, restkey="a surplus column", restval="")
            for values in lines:
                # DictReader collects surplus values in a list: convert it to text
                given = {column: str(value) for column, value in values.items() if value}
                rows.append(_check(row_type, given, f"{path}:{lines.line_num}"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is not UTF-8 text") from error
    if not rows:
        raise UserError(f"{path}: has no rows")
    return rows


def _check(row_type: type[Row], values: dict[str, Any], location: str) -> Row:
    try:
        return row_type.model_validate_strings(values)
    except ValidationError as error:
        raise UserError(f"{location}: {first_error(error)}") from error


class PublishedTable:
    """Importer of the tables in `data/published` that have times on several node counts."""

    def sniff(self, path: Path) -> bool:
        """Return whether the file has the name of such a table."""
        return path.suffix == ".csv" and path.stem in _CURVES

    def read(self, path: Path) -> pd.DataFrame:
        """Return the rows of the table's curves.

        Raises:
            UserError: a line is invalid, or the file is not one of these tables.
        """
        if not self.sniff(path):
            raise UserError(f"{path}: must be named one of {', '.join(_CURVES)}, with .csv")
        return pd.DataFrame(list(_CURVES[path.stem](path.parent)))


def _ntua_curves(folder: Path) -> Iterator[dict[str, Any]]:
    for row in ntua(folder).to_dict("records"):
        yield {
            "curve": f"{row['model']} ({row['dataset']})",
            "cluster": row["study"],
            "collective": "ring",
            **{name: row[name] for name in _TIMED},
            "payload_bytes": row["payload_bytes"],
        }


def _run_curves(runs_of_study: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for row in runs_of_study:
        yield {"curve": f"{row['model']} ({row['study']})"} | {name: row[name] for name in _TIMED}


_TIMED = ("nodes", "batch_per_worker", "step_time_s")
_CURVES: dict[str, Callable[[Path], Iterator[dict[str, Any]]]] = {
    "ntua_table2": _ntua_curves,
    "asu_mirrored_mnist": lambda folder: _run_curves(_asu(folder)),
    "horovod_mnist_gpus": lambda folder: _run_curves(_horovod(folder)),
}
IMPORTERS.add("published", PublishedTable())
