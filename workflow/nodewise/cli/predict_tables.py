"""Tables that `nodewise fit`, `predict`, `optimum` and `forecast` print in a terminal."""

from collections.abc import Iterator, Sequence

from rich.markup import escape
from rich.table import Table

from nodewise.cli.options import plain_table
from nodewise.core.units import write_number, write_plain
from nodewise.predict.ask import Row
from nodewise.predict.fit_file import FitFile

_LISTED = 8  # numbers of nodes or batches that a table lists one by one
_NAMED = 3  # curves that are named in front of a note that they share


def curves_table(file: FitFile) -> Table:
    """Return a table of what was fitted, with a line per curve."""
    shown = _table("Curve", "Points", "Nodes", "Batches", "Formula", "Noise")
    laws = {name: group for group in file.fits for name in group.curves}
    for curve in file.curves:
        group = laws[curve.name]
        shown.add_row(
            escape(curve.name),
            f"{len(curve.measured)}",
            _listed(curve.nodes),
            _listed(curve.batches),
            group.law,
            write_number(group.noise, "share"),
        )
    return shown


def predictions_table(rows: Sequence[Row]) -> Table:
    """Return the rows of `prediction_rows` as a table."""
    asked = [f"{rows[0]['objective']}", "90 % interval"] if "objective" in rows[0] else []
    epochs = ["Epoch"] if any(row["epoch_time_s"] is not None for row in rows) else []
    titles = ("Curve", "Nodes", "Batch", "Step", *epochs, "90 % interval", "Examples/s", *asked)
    shown = _table(*titles, "Kind", "Outside")
    for row in rows:
        values = [
            escape(row["curve"]),
            f"{row['nodes']:,}",
            f"{row['batch_per_worker']:,.6g}",
            write_number(row["step_time_s"], "s"),
            *([write_number(row["epoch_time_s"], "s")] if epochs else []),
            f"{write_number(row['low'], 's')} – {write_number(row['high'], 's')}",
            write_plain(row["samples_per_s"]) if row["samples_per_s"] else "–",
        ]
        if asked:
            values += _objective(row)
        kind = "extrapolated" if row["extrapolated"] else row["kind"]
        shown.add_row(*values, kind, ", ".join(row["outside"]))
    return shown


def forecast_table(rows: Sequence[Row]) -> Table:
    """Return the rows of `forecast.forecast_rows` as a table."""
    shown = _table("Nodes", "Step", "90 % interval", "Examples/s", "Speedup", "Kind")
    for row in rows:
        step, low, high = (write_number(row[name], "s") for name in ("step_time_s", "low", "high"))
        interval = f"{low} – {high}" if row["low"] is not None else ""
        rates = (write_plain(row["samples_per_s"]), write_number(row["speedup"], "×"))
        shown.add_row(f"{row['nodes']:,}", step, interval, *rates, row["kind"])
    return shown


def points_table(rows: Sequence[Row]) -> Table:
    """Return the rows of `points_file.predict_points` as a table."""
    shown = _table("Curve", "Devices", "Value", "90 % interval", "Kind")
    for row in rows:
        about = [escape(row["curve"] or ""), f"{row['n_devices'] or ''}"]
        if "error" in row:
            shown.add_row(*about, escape(row["error"]), "", "")
            continue
        value, low, high = (write_plain(row[name]) for name in ("value", "low", "high"))
        kind = "extrapolated" if row["extrapolated"] else ""
        shown.add_row(*about, f"{value} {escape(row['unit'])}".rstrip(), f"{low} – {high}", kind)
    return shown


def _objective(row: Row) -> list[str]:
    """Return the value of an objective and its interval as text."""
    if row["value"] is None:
        return ["unknown", ""]
    ends = f"{write_plain(row['value_low'])} – {write_plain(row['value_high'])}"
    return [f"{write_plain(row['value'])} {row['unit']}".rstrip(), ends]


def notes_of(file: FitFile) -> Iterator[str]:
    """Yield each note of a file once, preceded by the names of the curves that it applies to."""
    yield from file.notes
    about: dict[str, list[str]] = {}
    for curve in file.curves:
        for note in curve.notes:
            about.setdefault(note, []).append(curve.name)
    for note, names in about.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"{', '.join(names[:_NAMED])}{more}: {note}"


def _table(*titles: str) -> Table:
    table = plain_table(*titles, texts=(titles[0], "Kind", "Outside", "Formula"))
    table.columns[0].no_wrap = False
    return table


def _listed(numbers: Sequence[float]) -> str:
    if len(numbers) <= _LISTED:
        return ", ".join(f"{number:,.6g}" for number in numbers)
    return f"{numbers[0]:,.6g} … {numbers[-1]:,.6g} ({len(numbers)})"
