"""Tables that `nodewise fit`, `predict`, `optimum` and `forecast` print in a terminal."""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.markup import escape
from rich.table import Table

from nodewise.cli.options import plain_table
from nodewise.core.units import write_duration, write_number, write_plain
from nodewise.predict.answers import TITLES, Answers, Job, write_chance
from nodewise.predict.fit_file import FitFile
from nodewise.predict.optimum import table_rows
from nodewise.predict.published_efficiency import Standing

_LISTED = 8  # numbers of nodes or batches that a table lists one by one
_NAMED = 3  # curves that are named in front of a note that they share
_TEXTS = ("Curve", "Formula", "Kind", "Best")


def curves_table(file: FitFile) -> Table:
    """Return a table of what was fitted, with a line per curve."""
    shown = plain_table("Curve", "Points", "Nodes", "Batches", "Formula", "Noise", texts=_TEXTS)
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


def answers_table(answers: Answers, nodes: Collection[int] = (), *, marks: bool = False) -> Table:
    """Return the table of answers.

    Args:
        answers: the answers.
        nodes: the numbers to show. Default: the powers of two, the last and the best ones.
        marks: whether to mark the best number of each objective.
    """
    job = answers.job
    best: dict[int, list[str]] = {}
    for objective in answers.objectives() if marks else ():
        found = answers.best(objective)
        if found.nodes is not None:
            best.setdefault(found.nodes, []).append(TITLES[objective])
    last = int(answers.nodes[-1])
    shown_nodes = set(nodes) or {*best, last, *(2**i for i in range(last.bit_length()))}
    interval = "step_s" if job.step_known else "time"
    columns: dict[str, Callable[[dict[str, Any], int], str]] = {
        f"{job.node.title()}s": lambda row, i: f"{row['nodes']:,}",
        "Batch": lambda row, i: f"{row['batch_per_worker']:,.6g}",
        "Step": lambda row, i: write_number(row["step_s"], "s"),
        "90 % interval": lambda row, i: " – ".join(
            write_number(row[f"{interval}_{end}"], "s") for end in ("low", "high")
        ),
        job.name[0].upper() + job.name[1:]: lambda row, i: answers.write("time", i),
        f"Cost [{job.units['cost']}]": lambda row, i: write_plain(row["cost"]),
        "Energy": lambda row, i: answers.write("energy", i),
        "Speed-up": lambda row, i: write_number(row["speedup"], "×"),
        "Efficiency": lambda row, i: write_number(row["efficiency"], "share"),
        "Chance": lambda row, i: answers.sure(i),
        "Best": lambda row, i: ", ".join(best.get(row["nodes"], [])),
        "Kind": lambda row, i: row["kind"],
    }
    hidden = {
        "Step": not job.step_known,
        "Batch": not job.step_known and bool((answers.batch == 1).all()),
        "Energy": job.watts is None,
        "Chance": job.deadline_s is None and job.budget is None,
        "Best": not marks,
    }
    columns = {title: write for title, write in columns.items() if not hidden.get(title)}
    table = plain_table(*map(escape, columns), texts=_TEXTS)
    for i, row in enumerate(table_rows(answers)):
        if row["nodes"] in shown_nodes:
            table.add_row(*(write(row, i) for write in columns.values()))
    return table


def points_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the rows of `points_file.predict_points` as a table."""
    shown = plain_table("Curve", "Devices", "Value", "90 % interval", "Kind", texts=_TEXTS)
    for row in rows:
        about = [escape(row["curve"] or ""), f"{row['n_devices'] or ''}"]
        if "error" in row:
            shown.add_row(*about, escape(row["error"]), "", "")
            continue
        value, low, high = (write_plain(row[name]) for name in ("value", "low", "high"))
        kind = "extrapolated" if row["extrapolated"] else ""
        shown.add_row(*about, f"{value} {escape(row['unit'])}".rstrip(), f"{low} – {high}", kind)
    return shown


def cases_table(rows: Sequence[dict[str, Any]]) -> Table:
    """Return the rows of `forecast_cases` as a table."""
    shown = plain_table("Case", "Devices", "Examples/s", "90 % interval", texts=_TEXTS)
    for row in rows:
        about = [escape(row.get("case", "")), row["n_devices"]]
        if "error" in row:
            shown.add_row(*about, escape(row["error"]), "")
        else:
            value, low, high = (write_plain(row[name]) for name in ("value", "low", "high"))
            shown.add_row(*about, value, f"{low} – {high}")
    return shown


def best_machines(rows: pd.DataFrame, job: Job) -> str:
    """Return what is best in the table of `compare_machines`, in one sentence."""
    limits = {"deadline": job.deadline_s, "budget": job.budget}
    kept = " and the ".join(name for name, limit in limits.items() if limit is not None)
    best = rows[rows["best"]]
    if best.empty:
        return f"None of these machines keeps the {kept}."
    row = best.iloc[0]
    goal = "fastest" if kept == "budget" else "cheapest"
    time, cost = write_duration(row["time"]), write_plain(row["cost"])
    sure = f", chance {write_chance(row['chance'])}" if kept else ""
    within = f" that keeps the {kept}" if kept else ""
    name = f"{row['machines']} × {row['machine']}"
    return f"{name} is the {goal}{within}: {time}, {cost}{sure}."


def machines_table(rows: pd.DataFrame, job: Job) -> Table:
    """Return the table of `compare_machines`."""
    cost = f"Cost [{escape(job.currency or 'currency')}]"
    shown = plain_table(
        "Machines", "Devices", f"Time of {job.name}", "90 % interval", cost, "90 % interval",
        "Chance", "Best", texts=("Machines", "Best"),
    )  # fmt: skip
    limited = job.deadline_s is not None or job.budget is not None
    for row in rows.to_dict("records"):
        time, times = write_duration(row["time"]), [row["time_low"], row["time_high"]]
        shown.add_row(
            f"{row['machines']} × {escape(row['machine'])}",
            f"{row['devices']:,}",
            time,
            " – ".join(map(write_duration, times)),
            write_plain(row["cost"]),
            " – ".join(write_plain(row[f"cost_{end}"]) for end in ("low", "high")),
            write_chance(row["chance"]) if limited else "",
            "best" if row["best"] else "",
        )
    return shown


def published_table(found: Standing) -> Table:
    """Return some of the published curves to compare with, from the lowest to the highest."""
    shown = plain_table(
        "Published",
        "Model",
        "Device",
        "Devices",
        "Efficiency",
        texts=("Published", "Model", "Device"),
    )
    rows = found.curves
    some = np.unique(np.linspace(0, len(rows) - 1, min(_LISTED, len(rows))).round().astype(int))
    for row in rows.iloc[some].to_dict("records"):
        names = (escape(str(row[name])) for name in ("publisher", "model", "device"))
        efficiency = write_number(row["efficiency"], "share")
        shown.add_row(*names, f"{row['devices']:,}", efficiency)
    return shown


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


def _listed(numbers: Sequence[float]) -> str:
    if len(numbers) <= _LISTED:
        return ", ".join(f"{number:,.6g}" for number in numbers)
    return f"{numbers[0]:,.6g} … {numbers[-1]:,.6g} ({len(numbers)})"
