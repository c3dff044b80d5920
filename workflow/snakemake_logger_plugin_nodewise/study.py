"""The cells that a run measures: their names, their results, the time left."""

import os
import statistics
from collections.abc import Sequence
from pathlib import Path

from nodewise.core.cell import Cell
from nodewise.core.errors import UserError
from nodewise.core.units import counted, write_number
from nodewise.results.record import read_record
from nodewise.strategies import STRATEGIES
from nodewise.study.config import DEFAULT, read_config
from nodewise.study.estimate import REFERENCE_S, Machine, estimates

RESULTS = Path("results")
UNKNOWN_S = 10.0  # of a cell of a user's own model, before any cell has been measured


class Cells:
    """The cells that a run measures: `total`, of which `done` are measured."""

    def __init__(self) -> None:
        self.total = self.done = 0
        self._files: dict[str, Path] = {}
        self._names: dict[str, str] = {}
        self._estimates_s: dict[str, float] = {}
        self._left: set[str] = set()
        self._took_s = self._estimated_s = 0.0

    def read(self, configs: Sequence[str]) -> None:
        """Read the study, the first of `configs` or the default one.

        If it is wrong, the workflow says so, and cells have their ids as names here.
        """
        try:
            study = read_config(Path((configs or [DEFAULT])[0]))
            cells = study.cells()
            times = estimates(cells, Machine(REFERENCE_S, os.cpu_count() or 1))
        except UserError:
            return
        known = [time.cell_s for time in times if time]
        unknown_s = statistics.median(known) if known else UNKNOWN_S
        records = RESULTS / study.name / "records"
        for cell, time in zip(cells, times, strict=True):
            self._files[cell.id] = records / f"{cell.id}.json"
            self._names[cell.id] = name_of(cell)
            self._estimates_s[cell.id] = time.cell_s if time else unknown_s

    def start(self, total: int) -> None:
        """Note that `total` cells are to be measured: those without a record, as far as known."""
        self.total = total
        missing = {cell for cell, file in self._files.items() if not file.is_file()}
        self._left = missing if len(missing) == total else set(self._files)

    def name(self, cell: str) -> str:
        """Return a cell's name for readers."""
        return self._names.get(cell, cell)

    def finish(self, cell: str, took_s: float) -> str:
        """Note that a cell was measured within `took_s`; return its result in words."""
        self.done += 1
        self._left.discard(cell)
        self._took_s += took_s
        self._estimated_s += self._estimates_s.get(cell, took_s)
        try:
            record = read_record(self._files[cell])
        except (KeyError, UserError):
            return "measured"
        if record.result:
            step_s = record.result.elapsed_s / record.result.steps
            return f"{write_number(step_s, 's')} per step"
        return f"{record.status}: {record.failure.reason if record.failure else 'no reason'}"

    def expected_s(self, cell: str) -> float:
        """Return how long a cell is expected to take, in seconds, as those before it did."""
        slower = self._took_s / self._estimated_s if self._estimated_s else 1.0
        return slower * self._estimates_s.get(cell, UNKNOWN_S)

    def left_s(self) -> float:
        """Return how long the cells that are left are expected to take, in seconds."""
        left = [self.expected_s(cell) for cell in self._left]
        return statistics.mean(left) * (self.total - self.done) if left else 0.0


def name_of(cell: Cell) -> str:
    """Return a cell's name for readers: `fashion_cnn, Horovod, 2 nodes, batch 64`."""
    strategy = cell.variant or STRATEGIES[cell.strategy].short_title
    repeat = f", repeat {cell.repeat}" if cell.repeat else ""
    return f"{cell.model}, {strategy}, {counted(cell.nodes, 'node')}, batch {cell.batch}{repeat}"
