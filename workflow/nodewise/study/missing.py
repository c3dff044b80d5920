"""Find results of a study that have to be measured again, and remove their files on request."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from nodewise.core.errors import UserError
from nodewise.core.units import counted
from nodewise.models.facts import own_description, own_models, why_refused
from nodewise.results.calibration import read_calibration
from nodewise.results.record import Record, recorded
from nodewise.strategies import STRATEGIES
from nodewise.study.config import CALIBRATION, Config

Missing = dict[str, list[Path]]
"""Files of failed and refused measurements, by reason."""


def find_missing(study: Config, records: Path, *, cautions: bool = False) -> Missing:
    """Return the failed and refused measurements of a study.

    This includes the calibration, descriptions of users' own models and libraries of strategies.

    Args:
        study: the study.
        records: folder of its records.
        cautions: include cells that were measured while the machine was not quiet.
    """
    by_reason: Missing = {}
    cells = study.cells()
    for cell in cells:
        record = recorded(cell, records)
        if record and (reason := _reason(record, cautions=cautions)):
            by_reason.setdefault(reason, []).append(records / f"{cell.id}.json")
    file = records.parent / CALIBRATION
    with suppress(UserError):  # of another version: the workflow calibrates again
        calibration = read_calibration(file) if file.is_file() else None
        if calibration and calibration.failure:
            by_reason[f"calibration {calibration.status}: {calibration.failure.reason}"] = [file]
    for own in own_models(cells).values():
        description = own_description(own)
        refused = why_refused(description) if description.is_file() else None
        if refused is not None:
            by_reason[f"{own.model} is not described: {refused}"] = [description]
    for name in sorted({cell.strategy for cell in cells}):
        entry = STRATEGIES[name]
        library = entry.library
        if library and library.manifest.is_file() and (missing := library.why_missing()):
            by_reason[f"{entry.short_title} was not built: {missing}"] = [library.manifest]
    return by_reason


def _reason(record: Record, *, cautions: bool) -> str:
    """Return why a cell has to be measured again; an empty text if it does not have to."""
    if record.failure:
        return f"{record.status}: {record.failure.reason}"
    outside = record.result.conditions.outside if record.result and cautions else []
    return f"caution: {'; '.join(outside)}" if outside else ""


def lines(by_reason: Missing, study: Config) -> Iterator[str]:
    """Yield one line per reason; without any, one that says how far the study is."""
    cells, records = study.cells(), study.results / "records"
    if cells and not by_reason:
        done = sum(recorded(cell, records) is not None for cell in cells)
        state = "Nothing to try again" if done == len(cells) else "The next run measures the rest"
        yield f"{done} of {counted(len(cells), 'cell')} have a result. {state}."
    for reason, files in by_reason.items():
        where = str(files[0])
        if len(files) > 1:
            where = f"{counted(len(files), 'cell')}, such as {where}"
        yield f"no usable result: {where}: {reason}"


def remove(by_reason: Missing) -> Iterator[Path]:
    """Remove the files of the missing results; yield each."""
    for files in by_reason.values():
        for file in files:
            file.unlink(missing_ok=True)
            yield file
