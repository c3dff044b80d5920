"""Plan a study: what is done, how long the rest will take, and which cells cannot be measured."""

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from nodewise.core.cell import Cell
from nodewise.core.units import counted, write_duration
from nodewise.models.registry import cell_code
from nodewise.results.record import Record, recorded
from nodewise.study.config import Config
from nodewise.study.estimate import Estimate, Machine, estimates
from nodewise.study.experiment import EVIDENCE_REPEATS
from nodewise.study.measures import MEASURES


class Planned(NamedTuple):
    """A cell of a plan.

    Args:
        cell: the cell.
        estimate: its estimate; None for a user's own model whose work is not known yet.
        record: its record; None if it has to be measured, for the first time or again.
    """

    cell: Cell
    estimate: Estimate | None
    record: Record | None

    @property
    def done(self) -> bool:
        """Whether the cell has a result."""
        return self.record is not None and self.record.status == "ok"


def plan(study: Config, records: Path, machine: Machine) -> list[Planned]:
    """Estimate all cells of a study and look up their records.

    Args:
        study: the study.
        records: folder of its records, which may be incomplete or missing.
        machine: machine on which the cells are measured.

    Raises:
        UserError: a dataset is not known, or a file is damaged.
    """
    cells = study.cells()
    return [
        Planned(cell, estimated, _current(cell, recorded(cell, records)))
        for cell, estimated in zip(cells, estimates(cells, machine), strict=True)
    ]


def _current(cell: Cell, record: Record | None) -> Record | None:
    """Return a record unless the workflow repeats it, as what it was measured with has changed."""
    if record is None:
        return None
    made = record.provenance
    pairs: list[tuple[object, object]] = [(made.code_sha256, cell_code(cell))]
    pairs += [(made.versions.get(name), version(name)) for name in ("tensorflow", "keras")]
    pairs.append((made.measures, MEASURES))
    return record if all(measured in (None, now) for measured, now in pairs) else None


def report(study: Config, planned: Sequence[Planned], machine: Machine) -> str:
    """Return the plan as text: one line per experiment, a total, and remarks on the estimate."""
    lines = [
        f"{study.title} ({study.name})",
        f"estimated on {counted(machine.cores, 'core')}, "
        f"reference step {machine.reference_s * 1e3:.1f} ms",
        "",
        _row("experiment", "cells", "done", "failed", "time left (estimate)"),
    ]
    for name in study.experiments:
        part = [one for one in planned if one.cell.experiment == name]
        lines.append(_row(name, *_sums(part)))
    lines.append(_row("total", *_sums(planned)))
    lines += ["", "The estimate may be wrong by a factor of 2."]
    few = [name for name, one in study.experiments.items() if one.repeats < EVIDENCE_REPEATS]
    if few:
        lines.append(
            f"Too few launches for evidence of what is faster: {', '.join(few)}. Set repeats: "
            f"{EVIDENCE_REPEATS}"
        )
    if any(one.record and not one.done for one in planned):
        lines.append("Failed and refused cells are kept. To try again: nodewise missing --forget")
    unknown = {
        f"nodewise describe-model {one.cell.build} --dataset {one.cell.load or one.cell.dataset}"
        for one in planned
        if one.estimate is None and one.record is None
    }
    lines += [f"To estimate your own model, first: {command}" for command in sorted(unknown)]
    return "\n".join(lines)


def _sums(planned: Sequence[Planned]) -> tuple[str, str, str, str]:
    unknown = sum(one.estimate is None and one.record is None for one in planned)
    known_s = sum(one.estimate.cell_s for one in planned if one.estimate and not one.record)
    times = [write_duration(known_s)] if known_s or not unknown else []
    times += [f"unknown for {counted(unknown, 'cell')} of your own models"] if unknown else []
    done = sum(one.done for one in planned)
    failed = sum(one.record is not None for one in planned) - done
    return str(len(planned)), str(done), str(failed), " + ".join(times)


def _row(name: str, cells: str, done: str, failed: str, time: str) -> str:
    return f"{name:<32} {cells:>6} {done:>6} {failed:>6}  {time}"
