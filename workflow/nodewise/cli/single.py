"""Prepare and measure a single cell, and summarise its record.

Data and weights are prepared in other processes, because the process that measures must not have
used TensorFlow when it forks its workers.
"""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nodewise.core.cell import Cell
from nodewise.core.units import counted
from nodewise.measure.cell import measure
from nodewise.measure.environment import settle_environment
from nodewise.models.registry import weights_of
from nodewise.results.record import Record
from nodewise.study.single import Options, cell_of

RESULTS = Path("results")
SINGLE = RESULTS / "single_run"
_END_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM")  # part of util-linux


def prepare_data(cell: Cell) -> None:
    """Prepare the cell's dataset and weights if that is not done yet; always prepare own data anew.

    Raises:
        SystemExit: one of them is not available; the process that prepares it has printed why.
    """
    data, weights = data_manifest(cell), _weights(cell)
    if cell.load is not None or not data.is_file():
        _prepare(cell.load or cell.dataset, data.parent)
    if weights and not weights.is_file():
        _prepare(weights.parent.name, weights.parent, "--weights")


def _prepare(name: str, out: Path, *options: str) -> None:
    """Run `nodewise prepare`, which ends with this process and prints its own errors."""
    command = [sys.executable, "-m", "nodewise", "prepare", name, "--out", str(out), *options]
    done = subprocess.run([*_END_WITH_PARENT, *command], stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def data_manifest(cell: Cell) -> Path:
    """Return the path of the manifest of the cell's dataset."""
    return RESULTS / "datasets" / cell.dataset / "manifest.json"


def _weights(cell: Cell) -> Path | None:
    name = weights_of(cell.model)
    return RESULTS / "weights" / name / "manifest.json" if name else None


def measure_single(
    options: Options,
    out: Path | None,
    progress: Callable[[float], None],
    on_wait: Callable[[], None],
) -> tuple[Record, Path]:
    """Measure the cell that the options describe; return its record and the path of the record.

    Without `out` the record is written to `results/single_run`, beside earlier records of the cell.

    Raises:
        UserError: an option is wrong.
        SystemExit: data or weights are not available.
    """
    cell = cell_of(options)
    # Prepare before settle_environment(): downloads may need the user's proxies, workers have none.
    prepare_data(cell)
    settle_environment()
    with nullcontext(cell) if out else _claimed(cell) as cell:
        path = out or _place(cell)
        record = measure(
            cell,
            data_manifest(cell),
            _weights(cell),
            output=path,
            logs=_logs(cell),
            config=None,
            command=options.command(),
            progress=progress,
            on_wait=on_wait,
        )
    return record, path


@contextmanager
def _claimed(cell: Cell) -> Iterator[Cell]:
    """Yield the first repeat of the cell that has no record and that no other command measures.

    A command claims a repeat by a lock, which the kernel frees when the command ends or is killed.
    """
    for repeat in itertools.count():
        one = cell.model_copy(update={"repeat": repeat})
        _logs(one).mkdir(parents=True, exist_ok=True)
        with suppress(Timeout), FileLock(_logs(one) / ".claimed", blocking=False):
            if not _place(one).exists():
                yield one
                return


def _place(cell: Cell) -> Path:
    return SINGLE / "records" / f"{cell.id}.json"


def _logs(cell: Cell) -> Path:
    return SINGLE / "logs" / cell.id


def summary(record: Path) -> dict[str, str]:
    """Return what a record says, as titles and values.

    Raises:
        UserError: the file is not a valid record.
    """
    from nodewise.core.units import kind_label, write_number
    from nodewise.results.columns import PARTS
    from nodewise.results.tables import build_tables

    row = build_tables([record])["cells"].iloc[0]
    steps = (
        counted(row["epochs"], "epoch") if row["whole_epochs"] else counted(row["steps"], "step")
    )
    return {
        "cell": row["cell_id"],
        "kind of numbers": kind_label(row["kind"], row["data_origin"], row["weights"]),
        "trained": f"{steps}, global batch {row['global_batch']}",
        "step time, median": write_number(row["step_time_median_s"], "s"),
        "examples per second": write_number(row["examples_per_s"], "/s"),
        **{part: write_number(row[f"{part}_s"], "s") for part in PARTS},
        "test accuracy": write_number(row["test_accuracy"], "accuracy"),
        "flags": row["flags"] or "none",
        "record": str(record),
    }
