"""Prepare what a single cell needs, find a place for its record, and summarise the record."""

import itertools
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from nodewise.core.cell import Cell
from nodewise.core.units import counted, kind_label, write_number
from nodewise.measure.inputs import data_manifest, weights_manifest

SINGLE = Path("results/single_run")
_END_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM")  # part of util-linux


def prepare_data(cell: Cell) -> None:
    """Prepare the cell's dataset and weights if that is not done yet; always prepare own data anew.

    Other processes do it, because the process that measures must not have used TensorFlow when it
    forks its workers.

    Raises:
        SystemExit: one of them is not available; the process that prepares it has printed why.
    """
    needed = []
    if cell.load is not None or not data_manifest(cell).is_file():
        needed.append([cell.load or cell.dataset])
    weights = weights_manifest(cell)
    if weights and not weights.is_file():
        needed.append([weights.parent.name, "--weights"])
    for words in needed:
        command = [*_END_WITH_PARENT, sys.executable, "-m", "nodewise", "prepare", *words]
        done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
        if done.returncode:
            raise SystemExit(done.returncode)


@contextmanager
def claimed_repeat(cell: Cell) -> Iterator[Cell]:
    """Yield the first repeat of the cell that has no record and that no other command measures.

    A command claims a repeat by a lock, which the kernel frees when the command ends or is killed.
    """
    for repeat in itertools.count():
        one = cell.model_copy(update={"repeat": repeat})
        logs_of(one).mkdir(parents=True, exist_ok=True)
        with suppress(Timeout), FileLock(logs_of(one) / ".claimed", blocking=False):
            if not record_of(one).exists():
                yield one
                return


def record_of(cell: Cell, results: Path = SINGLE) -> Path:
    """Return the path of a cell's record in a folder of results."""
    return results / "records" / f"{cell.id}.json"


def logs_of(cell: Cell, results: Path = SINGLE) -> Path:
    """Return the folder of the logs of a cell's workers in a folder of results."""
    return results / "logs" / cell.id


def summary(record: Path) -> dict[str, str]:
    """Return what a record says, as titles and values.

    Raises:
        UserError: the file is not a valid record.
    """
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
        **{part: write_number(row[f"{part}_s"], "s") for part in ("input", *PARTS)},
        "test accuracy": write_number(row["test_accuracy"], "accuracy"),
        "flags": row["flags"] or "none",
        "record": str(record),
    }
