"""What the commands that predict share: the job that options describe, tables and notes."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from string import ascii_letters
from typing import Any

import numpy as np
import typer

from nodewise.cli.options import print_json, print_table
from nodewise.core.errors import UserError
from nodewise.core.units import write_duration, write_number, write_plain
from nodewise.predict.answers import TITLES, Answers, TrainingJob, write_chance
from nodewise.predict.fit_file import FitFile
from nodewise.predict.forecast import FORECAST_COLUMNS
from nodewise.predict.published_efficiency import Standing
from nodewise.predict.steps_to_accuracy import law_like, parse_counts, published_laws, rate_exponent
from nodewise.results.csv_file import parse_number
from nodewise.results.curve_units import SECONDS
from nodewise.results.curves import MOST_NODES

_MOST_NUMBERS = 1_000  # of nodes, in a range
_LISTED = 8  # numbers of nodes or batches that a table lists one by one
_NAMED = 3  # curves that are named in front of a note that they share


def parse_nodes(text: str) -> list[int]:
    """Parse `1-64`, `1,2,4` or `64` to ascending numbers; raise UserError for any other text."""
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part, re.ASCII)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= MOST_NODES or last - first >= _MOST_NUMBERS:
            allowed = f"at most {_MOST_NUMBERS:,} numbers from 1 to {MOST_NODES:,} and ranges"
            raise UserError(f"--nodes {text[:40]}: must be {allowed}, such as 1-64 or 1,2,4,8-16")
        numbers |= set(range(first, last + 1))
    return sorted(numbers)


def parse_batches(text: str | None) -> list[float]:
    """Parse batches of a device such as `16,32,64`; raise UserError for any other text."""
    try:
        return [parse_number(part, 1, 1e15) for part in (text or "").split(",") if part.strip()]
    except ValueError:
        raise UserError(f"--batches {text!s:.40}: must be numbers such as 16,32,64") from None


def parse_price(text: str) -> tuple[float, str]:
    """Parse a price and its currency such as `2.5 EUR` or `2.5`; raise UserError if it is none."""
    number, _, currency = text.strip().partition(" ")
    try:
        return float(number), currency.strip()[:20] or "currency"
    except ValueError:
        raise UserError(f"--price {text[:40]}: must be a number such as 2.5 or '2 EUR'") from None


def parse_deadline(text: str) -> float:
    """Parse a time such as `90`, `30min` or `2h` to seconds; raise UserError if it is none."""
    number = text.strip().rstrip(ascii_letters)
    try:
        return parse_number(number, 0, 1e15) * SECONDS[text.strip().removeprefix(number) or "s"]
    except (KeyError, ValueError):
        allowed = "a time such as 90s, 30min, 2h or 1d"
        raise UserError(f"--deadline {text[:40]}: must be {allowed}") from None


def job_of(asked: Mapping[str, Any], *, counted: bool = True) -> TrainingJob:
    """Return the job that options describe; `counted`: whether the examples of a step are known.

    Raises:
        UserError: a value is not allowed, or has no effect.
    """
    told: dict[str, Any] = {x: asked.get(x) for x in ("examples", "epochs", "budget", "watts")}
    if asked["price"] is not None:
        told["price"], told["currency"] = parse_price(asked["price"])
    if asked.get("deadline") is not None:
        told["deadline_s"] = parse_deadline(asked["deadline"])
    steps = law_like(asked.get("converges_like"), parse_counts(asked.get("samples_to_target")))
    if steps and asked["examples"] and counted:
        raise UserError("--examples: has no effect, as the target says how many are needed")
    return TrainingJob(**told, steps=steps)


def print_target(job: TrainingJob, converges_like: str | None) -> None:
    """Print what a larger batch needs: more examples, and its learning rate."""
    if job.steps is None:
        laws = published_laws()
        twice = sorted(law.critical_batch for law in laws.values())
        typer.echo(
            "Throughput only: larger batches need more examples, twice as many at "
            f"{twice[0]:,.0f} to {twice[-1]:,.0f} by published models. "
            f"Give --samples-to-target, or --converges-like: {', '.join([*laws][:_LISTED])}, …"
        )
    rule = "in proportion (SGD, with warm-up) or by its root (Adam); see the page Time to accuracy"
    rate = f"A larger batch usually needs a larger learning rate: {rule}."
    if known := rate_exponent(converges_like) if converges_like else None:
        rate = (
            f"Learning rates of {converges_like}: as the batch to the power of {known[0]:.2f} "
            f"± {known[1]:.2f} ({known[2]} batches). Usual rules: 1 (linear) and 0.5."
        )
    typer.echo(rate)


def print_curves(file: FitFile) -> None:
    """Print what was fitted to each curve."""
    fits = {name: group for group in file.fits for name in group.curves}
    print_table(
        {
            "Curve": curve.name,
            "Points": len(curve.measured),
            "Nodes": _listed(curve.nodes),
            "Batches": _listed(curve.batches) if curve.batch_known else "",
            "Continued by": "published curves" if curve.like_published else fits[curve.name].law,
            "Noise": write_number(fits[curve.name].noise, "share"),
        }
        for curve in file.curves
    )


def print_notes(file: FitFile, *, err: bool) -> None:
    """Print what the measurements leave open, each note once."""
    for note in file.notes:
        typer.echo(note, err=err)
    for note in dict.fromkeys(note for curve in file.curves for note in curve.notes):
        names = [curve.name for curve in file.curves if note in curve.notes]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        typer.echo(f"{', '.join(names[:_NAMED])}{more}: {note}", err=err)


def print_standing(found: Standing | None, name: str = "") -> None:
    """Print where an efficiency stands among published ones, and some of these, ascending."""
    if found is None:
        return
    sentence, rows = found
    typer.echo(f"{name}{sentence}")
    some = np.unique(np.linspace(0, len(rows) - 1, min(_LISTED, len(rows))).round().astype(int))
    print_table(
        {
            "Published": row["publisher"],
            "Model": row["model"],
            "Device": row["device"],
            "Devices": f"{row['devices']:,}",
            "Efficiency": write_number(row["efficiency"], "share"),
        }
        for row in rows.iloc[some].to_dict("records")
    )


def print_answers(answers: Answers, nodes: Collection[int] = ()) -> None:
    """Print the answers on numbers of nodes; by default powers of two, the last and the best."""
    best, last = {} if nodes else answers.best_for, int(answers.nodes[-1])
    shown = set(nodes) or {*best.values(), last, *(2**i for i in range(last.bit_length()))}
    print_table(
        _answer(row, answers.job)
        | {"Best": ", ".join(TITLES[name] for name, n in best.items() if n == row["nodes"])}
        | {"Kind": row["kind"]}
        for row in answers.rows()
        if row["nodes"] in shown
    )


def print_machines(rows: Sequence[Mapping[str, Any]], job: TrainingJob) -> None:
    """Print the rows of `compare_machines`, whose machines have prices, and which is best."""
    priced = replace(job, price=1.0, currency=rows[0]["currency"], node="device")
    print_table(
        {"Machines": f"{row['machines']} × {row['machine']}"}
        | _answer({**row, **{name: row[other] for name, other in FORECAST_COLUMNS.items()}}, priced)
        | {"Speed-up": "", "Best": "best" if row["best"] else ""}  # devices differ
        for row in rows
    )
    best = next((row for row in rows if row["best"]), None)
    if best is None:
        typer.echo("None of these machines keeps the deadline and the budget.")
        return
    goal = "fastest" if job.budget and not job.deadline_s else "cheapest"
    sure = f", chance {write_chance(best['chance'])}" if job.deadline_s or job.budget else ""
    told = f"{write_duration(best['time'])}, {write_plain(best['cost'])} {priced.currency}{sure}"
    typer.echo(f"{best['machines']} × {best['machine']} is the {goal}: {told}.")


def _answer(row: Mapping[str, Any], job: TrainingJob) -> dict[str, str]:
    """Return a row of answers. Columns that are empty in all rows are not printed."""
    time, cost = ("time to target", "Cost to target") if job.steps else (job.name, "Cost")
    return {
        f"{job.node.title()}s": f"{row['nodes']:,}",
        "Batch": write_plain(row["batch_per_worker"]) if row["batch_per_worker"] else "",
        "Step": "" if row["step_s"] is None else write_number(row["step_s"], "s"),
        "Examples": write_plain(row["samples"]) if job.steps else "",
        time[0].upper() + time[1:]: write_duration(row["time"]),
        "90 % interval": " – ".join(write_duration(row[f"time_{end}"]) for end in ("low", "high")),
        f"{cost} [{job.units['cost']}]": write_plain(row["cost"]),
        "Energy": "" if job.watts is None else f"{write_plain(row['energy'])} Wh",
        "Speed-up": write_number(row["speedup"], "×"),
        "Efficiency": write_number(row["efficiency"], "share"),
        "Chance": write_chance(row["chance"]) if job.deadline_s or job.budget else "",
    }


def print_values(rows: Sequence[Mapping[str, Any]], name: str, *, as_json: bool) -> None:
    """Print the answers to a file of questions: as JSON, or the column `name` and the values."""
    print_json(rows) if as_json else print_table(_value(row, name) for row in rows)


def _value(row: Mapping[str, Any], name: str) -> dict[str, str]:
    about = {name.title(): row.get(name) or "", "Devices": f"{row['n_devices'] or ''}"}
    for key in ("batch_per_device", "global_batch", "global_batch_asked"):
        about[key.replace("_", " ").capitalize()] = f"{row.get(key) or ''}".removesuffix(".0")
    if "error" in row:
        return about | {"Value": row["error"]}
    return about | {
        "Value": f"{write_plain(row['value'])} {row.get('unit', 'examples/s')}",
        "90 % interval": f"{write_plain(row['low'])} – {write_plain(row['high'])}",
        "Time to target": write_duration(60 * row["minutes"]) if "minutes" in row else "",
        "Kind": "extrapolated" if row.get("extrapolated") else "",
    }


def _listed(numbers: Sequence[float]) -> str:
    if len(numbers) <= _LISTED:
        return ", ".join(map(write_plain, numbers))
    return f"{write_plain(numbers[0])} … {write_plain(numbers[-1])} ({len(numbers)})"
