"""Describe the fitted curves of a study to pages: their labels, coefficients and figures."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import kind_label
from nodewise.predict.fit_queries import CURVE, coefficients_of
from nodewise.predict.law import LAWS
from nodewise.predict.study import ALL_POINTS, CROWDED, UNKNOWN_PAYLOAD, UNTIMED
from nodewise.report import evidence
from nodewise.report.addresses import curve_page
from nodewise.report.context import ReportContext
from nodewise.report.html import badge, data, number
from nodewise.report.tables import BATCH, NODES, Column, Table, table
from nodewise.results.columns import ONE_NODE_KEY
from nodewise.results.curve_points import curve_keys
from nodewise.results.queries import plain_training, with_labels

_DIAGNOSIS = [
    BATCH,
    NODES,
    Column("bound", "The step is"),
    Column("overhead", "Its overhead is"),
    *(
        Column(f"{part}_share", title, "share", "fitted")
        for part, title in (
            ("compute", "Computing"),
            ("wait", "Waiting"),
            ("input", "Input"),
            ("latency", "Messages"),
            ("bandwidth", "Bytes"),
        )
    ),
]

_ENOUGH = 3  # numbers of nodes that a fit needs, to be extrapolated far
# unit of a coefficient -> factor, the unit that numbers are written in, and what they are per
_UNITS = {
    "s": (1, "s", ""),
    "s/B": (1e6, "s", " per MB"),
    UNKNOWN_PAYLOAD: (1, "s", " per gradient"),
    "1": (1, "share", ""),
    "B/s": (1, "B/s", ""),
}
_FITS = [
    Column("law", "Formula"),
    Column("meaning", "Coefficient", wide=True),
    Column("written", "Value"),
    Column("note", "Notes", wide=True),
]
_SHARED_FITS = [Column("link", "Shared by", wide=True), *_FITS]


@dataclass(frozen=True)
class Curves:
    """The fitted curves of a study; methods take the key of a curve."""

    study: ReportContext

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of each curve, by key; all labels are different.

        A label has the model, the strategy and the nodes. Where curves would have the same label,
        the title of the experiment is added, then the experiment's name, then the key.
        """
        rows = self._keyed.to_dict("index")
        known = {str(curve): self._label(row) for curve, row in rows.items()}
        known = disambiguate(known, {key: self.experiment(key) for key in known})
        known = disambiguate(known, {str(key): row["experiment"] for key, row in rows.items()})
        return disambiguate(known, {key: key for key in known})

    def experiment(self, curve: str) -> str:
        """Return the title of a curve's experiment, or its name if it has no title.

        Empty if the curve is of no experiment.
        """
        return self.study.experiment_title(str(self._keyed.loc[curve, "experiment"]))

    def page(self, curve: str) -> str:
        """Return the address of the page that shows a curve."""
        row = self._keyed.loc[curve]
        strategy = str(row["strategy"] or row["source"])
        strategy = self.study.trained_with.get((str(row["experiment"]), strategy), strategy)
        return curve_page(str(row["model"]), strategy)

    def points(self, curve: str) -> pd.DataFrame:
        """Return the points of a curve that this study measured.

        They are rows of the table `curves`, with labels of their kinds.
        """
        return self._points[self._points["curve"] == curve]

    def against_plain(self, curve: str) -> "pd.Series[float]":
        """Return the speed-ups of a curve's points over plain training in one process.

        Only points on several nodes that count as evidence are returned.
        """
        single = plain_training(self._points)[[*ONE_NODE_KEY, "repeats", "flags"]]
        single = single.drop_duplicates(ONE_NODE_KEY)
        mine = self.points(curve).merge(single, "inner", ONE_NODE_KEY, suffixes=("", "_one"))
        mine = evidence.check_times(mine[mine["nodes"] > 1], self.study.tables, other="_one")
        return evidence.select(mine)["speedup"].dropna()

    @cached_property
    def _keyed(self) -> pd.DataFrame:
        """One row per curve, by key, with what the tables say of it and its `cluster`."""
        rows = self.study.overhead["predictions"][CURVE].drop_duplicates("curve")
        clusters = self._points.drop_duplicates("curve")[["curve", "cluster"]]
        return rows.merge(clusters, "left", "curve").fillna({"cluster": ""}).set_index("curve")

    @cached_property
    def _points(self) -> pd.DataFrame:
        curves = with_labels(self.study.tables["curves"])
        return curves.assign(curve=pd.Series(curve_keys(curves), curves.index, "str"))

    def _label(self, row: dict[Any, Any]) -> str:
        """Return the model, the strategy and the nodes of a curve in one line."""
        nodes = f"nodes of {row['cluster']}" if row["cluster"] else row["source"]
        where = {
            "published": "published",
            "imported": "imported",
            "measured": "processes of one machine",
            "emulated soft": f"{nodes}, shares held softly",
        }
        model = self.study.model_title(row["model"])
        strategy = self.study.strategy_title(row["strategy"])
        return " · ".join(filter(None, [model, strategy, where.get(row["source"], nodes)]))


def disambiguate(labels: dict[str, str], more: dict[str, str]) -> dict[str, str]:
    """Append `more` to labels that several keys share.

    Args:
        labels: the labels, by key.
        more: the text to append, by key; if it is empty, the label stays as it is.

    Returns:
        The labels, by key.
    """
    shared = Counter(labels.values())
    return {
        key: f"{label} · {more[key]}" if shared[label] > 1 and more[key] else label
        for key, label in labels.items()
    }


def _until(job: str) -> str:
    """Say what is trained: a run until the target accuracy, or else any number of examples."""
    return ", until the target accuracy" if job == "run" else ""


def fitted_curve(curves: Curves, curve: str) -> dict[str, Any]:
    """Return the template variables of a fitted curve: its figures, coefficients and answers.

    Of the answers, only those for the largest batch are returned.
    """
    study = curves.study
    optima, predictions = study.overhead["optima"], study.overhead["predictions"]
    best = optima[(optima["curve"] == curve) & (optima["answer"] != "")]
    best = best[best["batch_per_worker"] == best["batch_per_worker"].max()]
    mine = predictions[predictions["curve"] == curve]
    fits, diagnosis = coefficients_of(study.overhead["fits"], curve), study.overhead["diagnosis"]
    fitted = mine[mine["observed_s"].notna() & (mine["scenario"] == ALL_POINTS)]
    return {
        "label": curves.labels[curve],
        "page": curves.page(curve),
        "answers": [
            {
                "kind": badge(row["kind"]),
                "text": f"With {row['batch_per_worker']:,.0f} examples per node and step"
                f"{_until(row['job'])}: {row['answer']}",
            }
            for row in best.to_dict("records")
        ],
        "figures": study.pick("reach", "fit", curve=curve),
        "fits": coefficients(fits),
        "left_out": sorted({part for note in fits["note"] for part in _of_points(note)}),
        "diagnosis": table(diagnosis[diagnosis["curve"] == curve], _DIAGNOSIS),
        "fitted": [int(n) for n in sorted(set(fitted["nodes"]))],
        "off": [
            number(error, "share", "fitted")
            for error in fitted["error"].abs().agg(["median", "max"])
        ],
        "enough": _ENOUGH,
        "one_machine": mine["source"].iloc[0] == "measured",
        "alone": _alone(curves, curve, mine.iloc[0]),
    }


def _alone(curves: Curves, curve: str, first: "pd.Series[Any]") -> dict[str, Any] | None:
    """Describe what the strategy does on one node besides plain training.

    Returns:
        What it does, with the range of the points' speed-ups over plain training and how many
        points were faster; None if it does nothing besides.
    """
    does = LAWS[first["law"]].alone
    if not does:
        return None
    kind = kind_label(first["source"], first["data_origin"])
    ratios = curves.against_plain(curve)
    ends = dict.fromkeys(ratios.agg(["min", "max"])) if len(ratios) else {}
    return {
        "does": does,
        "ends": [number(end, "×", kind) for end in ends],
        "faster": int((ratios > 1).sum()),
        "points": len(ratios),
    }


def coefficients(fits: pd.DataFrame, *, shared: bool = False) -> Table:
    """Return the coefficients of laws as a table.

    With `shared`, for coefficients that several curves share, there is a column for the link.
    """
    rows = fits.to_dict("records")
    for row in rows:
        law = row["law"]
        row |= {
            "law": LAWS[law].title,
            "written": _written(row),
            "note": "; ".join(
                p for p in row["note"].split("; ") if p not in _of_points(row["note"])
            ),
        }
    return table(rows, _SHARED_FITS if shared else _FITS)


def _of_points(note: str) -> list[str]:
    """Return the parts of a coefficient's note that are about the points of its curve.

    All coefficients of the curve have these parts, so that a page states them once.
    """
    return [part for part in note.split("; ") if part.startswith((UNTIMED, CROWDED))]


def _written(row: dict[Any, Any]) -> Markup:
    """Return a coefficient and its interval in its unit, as markup."""
    factor, unit, per = _UNITS[row["unit"]]
    value, low, high = (data(factor * row[end], unit) for end in ("value", "low", "high"))
    template = Markup('{}{} {}<span class="nw-range">{} to {}</span>')
    return template.format(value, per, badge("fitted"), low, high)
