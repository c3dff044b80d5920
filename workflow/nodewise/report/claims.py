"""Judge the claims of published studies by our points, and show the verdicts.

A claim in study.yaml declares which points are compared, in which value, and between which limits
the result must be. The verdict follows from the 90 % intervals of the comparisons that count as
evidence (`nodewise.report.evidence`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from markupsafe import Markup

from nodewise.core.errors import UserError
from nodewise.core.intervals import students_t
from nodewise.report import evidence
from nodewise.report.html import data, interval, number, slug, text
from nodewise.report.tables import Column, Table, table
from nodewise.results import studies
from nodewise.results.columns import CURVE_KEY
from nodewise.results.comparisons import ALIKE, on_devices, with_rate_intervals
from nodewise.results.queries import GROUP, Tables, scaling_lines, with_labels
from nodewise.results.studies import Claim

AGREES, CONTRADICTS = "agrees", "contradicts"
FOLLOWS, OPEN = "follows from the study's own numbers", "too little evidence"
VERDICTS = (AGREES, CONTRADICTS, FOLLOWS, OPEN)

_COLUMNS = ["value", "low", "high", "least", "most", "lacks", "at", "label"]
_CELLS = ["cell_id", "cell_id_other"]
_CLAIMS = [
    Column("verdict", "Verdict"),
    Column("says", "What it says", wide=True),
    Column("found", "What we found", wide=True),
]
_NEEDS = Column("needs", "What it needs", wide=True)
_SMALL = Markup("{}<br><small>{}</small>")


@dataclass(frozen=True)
class Judged:
    """A claim with all its comparisons, including those that do not count; see `compare`."""

    study: str
    claim: Claim
    comparisons: pd.DataFrame

    @property
    def counting(self) -> pd.DataFrame:
        """The comparisons that count as evidence."""
        return evidence.select(self.comparisons)

    @property
    def speaking(self) -> tuple[int, int, int]:
        """How many counting comparisons speak for the claim, against it, and for neither.

        A comparison speaks for the claim if its whole interval is inside the limits, and against it
        if the whole interval is outside, on one side.
        """
        rows = self.counting
        pro = int(((rows["low"] > rows["least"]) & (rows["high"] < rows["most"])).sum())
        contra = int(((rows["high"] < rows["least"]) | (rows["low"] > rows["most"])).sum())
        return pro, contra, len(rows) - pro - contra

    @property
    def verdict(self) -> str:
        """The verdict on the claim, one of `VERDICTS`.

        Claims are general, so one comparison against a claim is enough to contradict it. Numbers of
        the study itself never agree with it: its claim follows from them if the value does.
        """
        pro, contra, _ = self.speaking
        rows = self.counting
        if contra:
            return CONTRADICTS
        if len(rows) and self.claim.value == "saved":
            follows = rows["value"].between(rows["least"], rows["most"]).all()
            return FOLLOWS if follows else OPEN
        return AGREES if pro else OPEN

    @property
    def needs(self) -> str:
        """A sentence that says what would settle the claim; empty if it is settled."""
        if self.verdict != OPEN:
            return ""
        if len(self.counting):
            return "The intervals leave it open: more launches of each point are needed."
        return evidence.needs(self.comparisons)


def judge_claims(tables: Tables, fit_tables: Tables) -> list[Judged]:
    """Return every claim of every study with its comparisons in the tables of results and fits.

    Raises:
        UserError: the file of a study is invalid, or a claim names an unknown column.
    """
    return [
        Judged(name, claim, compare(claim, tables, fit_tables))
        for name, study in studies.studies().items()
        for claim in study.claims
    ]


def compare(claim: Claim, tables: Tables, fit_tables: Tables) -> pd.DataFrame:
    """Return the comparisons that a claim declares, one per row.

    Returns:
        Rows with `value` and its 90 % interval, `low` to `high`; the limits `least` and `most`;
        what the comparison `lacks` to count as evidence; `at`, the batches in words; the `label` of
        its kind; and the cells of its points, `cell_id` and `cell_id_other`.
    """
    saved = claim.value == "saved"
    rows = fit_tables["optima"] if saved else points(claim.value, tables, claim.differ, claim.pairs)
    for column, wanted in claim.of.items():
        if column not in rows:
            raise UserError(f"claim {claim.says!r}: of: unknown column {column}")
        rows = rows[rows[column].isin(wanted if isinstance(wanted, list) else [wanted])]
    rows = _saved(rows) if saved else rows
    rows = _of_batches(rows.assign(least=claim.above, most=claim.below, at=""), claim)
    return rows.reindex(columns=[*_COLUMNS, *_CELLS]).reset_index(drop=True)


def points(
    value: str, tables: Tables, differ: str = "", pairs: Sequence[tuple[object, object]] = ()
) -> pd.DataFrame:
    """Return our points with a value, or pairs of points, and what they lack to count as evidence.

    Args:
        value: the value, one of those of `Claim.value`, but not `saved`.
        tables: the tables of results.
        differ: the column in which the points of a pair differ.
        pairs: the values of this column in each pair; without any, points are not paired.

    Returns:
        Rows with `value` (of a pair, the ratio) and its 90 % interval, `low` to `high`, `lacks`,
        and the columns of `curves`; those of the second point of a pair end in `_other`.
    """
    rows = _points(value, tables)
    rows = _pairs(rows, differ, pairs) if pairs else rows
    other = "_other" if pairs else None
    if value == "bytes":
        return evidence.check_bytes(rows, tables)
    if value.endswith("accuracy"):
        return evidence.check_accuracies(rows, tables, other=other)
    return evidence.check_times(rows, tables, other=other)


def _saved(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of time that formulas fitted to a study's own table save, in one row.

    It is the mean over the models, each at the batch that saves most. The interval counts the
    errors of all models as one.
    """
    rows = rows[rows["source"] == "published"].sort_values("speedup")
    best = rows.drop_duplicates("model", keep="last")[["speedup", "speedup_low", "speedup_high"]]
    value, low, high = 1 - (1 / best).mean()
    mean = {"value": value, "low": low, "high": high, "label": "predicted", "lacks": ""}
    return pd.DataFrame([mean] if len(best) else [], columns=[*mean])


def _points(value: str, tables: Tables) -> pd.DataFrame:
    """Return our points with `value` and its interval, `low` to `high`.

    Values of launches also have their standard error, `error`, and the number of `launches`.
    """
    rows = with_labels(scaling_lines(tables["curves"]))
    # emulated devices of one process need no link, unlike nodes, and share their CPU quotas
    rows = rows[(rows["kind"] == "measured") | ~on_devices(rows)]
    if value == "throughput":
        ends = {"": "value", "_low": "low", "_high": "high"}
        names = {f"examples_per_s{end}": name for end, name in ends.items()}
        rows = with_rate_intervals(rows).rename(columns=names)
    elif value == "bytes":
        sent = rows["bytes_sent_per_step"]
        rows = rows.assign(value=sent, low=sent, high=sent)[sent > 0]
    else:
        rows = rows.merge(_over_launches(value, tables), "inner", CURVE_KEY)
        if value == "staleness":
            rows["repeats"] = rows["launches"]
        else:
            rows["label"] = rows["accuracy_label"]
    return rows.assign(strategy=rows["line"], faster=rows["speedup"] > 1)


def _over_launches(value: str, tables: Tables) -> pd.DataFrame:
    """Return the median of accuracies or of the staleness over the launches of each point.

    The staleness is relative to the number of other workers.
    """
    cells, noted = tables["cells"].query("status == 'ok'"), tables["observations"]
    if value == "staleness":
        stale = noted.loc[noted["observation"] == value, ["cell_id", "mean"]]
        cells = cells[cells["nodes"] > 1].merge(stale, "inner", "cell_id")
        cells[value] = cells["mean"] / (cells["nodes"] - 1)
    else:
        cells = cells[cells["whole_epochs"]].dropna(subset=value)
    rows = cells.groupby(CURVE_KEY, as_index=False).agg(
        value=(value, "median"),
        error=(value, "sem"),
        launches=(value, "size"),
        epochs=("epochs", "first"),
    )
    reach = rows["error"] * students_t(rows["launches"] - 1)
    return rows.assign(low=rows["value"] - reach, high=rows["value"] + reach)


def _pairs(rows: pd.DataFrame, differ: str, pairs: Sequence[tuple[object, object]]) -> pd.DataFrame:
    """Return the ratios of the values of two points that differ in one column only.

    The interval of a ratio contains all values that both intervals allow; that of accuracies is
    Student's t over the launches of both points.
    """
    alike = [*ALIKE, "strategy", "nodes", *(["epochs"] if "error" in rows else [])]
    alike.remove(differ) if differ in alike else alike.remove("experiment")
    of = dict([*rows.groupby(differ)])
    found = [
        of.get(one, rows[:0]).merge(
            of.get(other, rows[:0]), "inner", alike, suffixes=("", "_other")
        )
        for one, other in pairs
    ]
    both: pd.DataFrame = pd.concat(found, ignore_index=True).query("nodes > 1")
    one = both["value_other"]
    ratio, low, high = both["value"] / one, both["low"], both["high"]
    low, high = low / both["high_other"], high / both["low_other"]
    if "error" in both:
        freedom = both["launches"] + both["launches_other"] - 2
        reach = np.hypot(both["error"], both["error_other"]) * students_t(freedom) / one
        low, high = ratio - reach, ratio + reach
    return both.assign(value=ratio, low=low, high=high)


def _of_batches(rows: pd.DataFrame, claim: Claim) -> pd.DataFrame:
    """Return the comparisons of the batches that the claim is about; those that count come first.

    At the ends of a line, those that count are considered only, if there are two or more of them.
    """
    if claim.batches == "all":
        return rows
    rows = rows.assign(short=rows["lacks"] != "")
    if claim.batches == "best":
        rows = rows.sort_values(["short", "value"], ascending=[True, False], kind="stable")
        return rows.drop_duplicates([*GROUP, "strategy", "nodes"])
    line = [*(name for name in ALIKE if name != "batch_per_worker"), "strategy", "nodes"]
    counting = rows["batch_per_worker"].mask(rows["short"])
    counted = counting.groupby([rows[name] for name in line]).transform("nunique")
    rows = rows[~rows["short"] | (counted <= 1)].sort_values("batch_per_worker", kind="stable")
    rows = rows[rows.groupby(line)["batch_per_worker"].transform("nunique") > 1]
    small = rows.drop_duplicates(line).assign(least=-np.inf, most=claim.above)
    large = rows.drop_duplicates(line, keep="last").assign(at="at the largest batch")
    return pd.concat([small.assign(at="at the smallest batch"), large])


def claims_tables(claims: Sequence[Judged]) -> dict[str, Table | None]:
    """Return the claims that are `decided` and those that are `open`; None where there are none."""
    rows: dict[str, list[dict[str, Any]]] = {"decided": [], "open": []}
    for one in claims:
        says = _SMALL.format(
            text(f"{one.claim.says.rstrip('.')} ({one.claim.where})."),
            text(f"Agrees if {one.claim.decided_by[:1].lower()}{one.claim.decided_by[1:]}"),
        )
        found = _found(one) if len(one.counting) else ""
        row = {"verdict": verdict(one.verdict), "says": says, "found": found, "needs": one.needs}
        rows["open" if one.verdict == OPEN else "decided"].append(row)
    columns = {"decided": _CLAIMS, "open": [*_CLAIMS[1:], _NEEDS]}
    return {name: table(of, columns[name]) if of else None for name, of in rows.items()}


def verdict(words: str) -> Markup:
    """Return a verdict in words and colour."""
    shown = Markup('<span class="nw-verdict nw-verdict--{}">{}</span>')
    return shown.format(slug(words), text(words))


def value(one: Judged) -> Markup:
    """Return the value of the comparisons that count as evidence, or the range of several."""
    low, high = one.counting["value"].min(), one.counting["value"].max()
    ends = [data(end, "mean") for end in (low, high)]
    return ends[0] if ends[0] == ends[1] else Markup(" to ").join(ends)


def _found(one: Judged) -> Markup:
    """Say what was compared for a claim, and how many comparisons speak for it and against it.

    Values of different kinds, such as measured and emulated, are listed separately: each with its
    interval, or the median and the range of several.
    """
    unit = "share" if one.claim.value == "saved" else "×"
    values = []
    for (at, _), rows in one.counting.groupby(["at", "label"], sort=False):
        kind, ends = str(rows["label"].iloc[0]), rows["value"].agg(["min", "max"])
        shown = number(rows["value"].median(), unit, kind) + text(f" {at}" if at else "")
        low, high = rows[["low", "high"]].iloc[0]
        if len(rows) > 1:
            several = Markup(" ({} to {} in {} comparisons)")
            shown += several.format(*(data(end, unit) for end in ends), len(rows))
        elif low < high:
            shown += interval(low, high, unit)
        values.append(shown)
    left_out = len(one.comparisons) - len(one.counting)
    counts = zip(
        (*one.speaking, left_out), ("for", "against", "undecided", "not counted"), strict=True
    )
    told = ", ".join(f"{count} {word}" for count, word in counts if count)
    shown = Markup("{}: {}").format(text(one.claim.compares), Markup("; ").join(values))
    return _SMALL.format(shown, text(told))
