"""Describe the fitted curves of a study to pages: their labels, answers and coefficients."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.predict.fit_curves import CURVE
from nodewise.predict.fit_file import PER_GRADIENT
from nodewise.predict.law import LAWS
from nodewise.report.context import ReportContext
from nodewise.report.html import data
from nodewise.report.page import curve_page
from nodewise.report.tables import BATCH, NODES, Column, Table, table
from nodewise.results.curve_points import curve_keys

_DIAGNOSIS = [
    BATCH,
    NODES,
    Column("bound", "The step is"),
    Column("overhead", "Its overhead is"),
]
_FEW = 3  # numbers of nodes; answers from fewer are guesses
# unit of a coefficient -> factor, the unit that numbers are written in, and what they are per
_UNITS = {
    "s": (1, "s", ""),
    "s/B": (1e6, "s", " per MB"),
    PER_GRADIENT: (1, "s", " per gradient"),
    "1": (1, "share", ""),
    "B/s": (1, "B/s", ""),
}
_FITS = [
    Column("law", "Formula"),
    Column("meaning", "Coefficient", wide=True),
    Column("written", "Fitted value, 90 % interval"),
    Column("note", "Notes"),
]


@dataclass(frozen=True)
class Curves:
    """The fitted curves of a study; methods take the key of a curve."""

    study: ReportContext

    @cached_property
    def _keyed(self) -> pd.DataFrame:
        """One row per curve, by key, with its `cluster` and a `cell_id` of its points."""
        rows = self.study.overhead["predictions"][CURVE].drop_duplicates("curve")
        points = self.study.tables["curves"]
        points = points.assign(curve=pd.Series(curve_keys(points), points.index, "str"))
        known = points.drop_duplicates("curve")[["curve", "cluster", "cell_id"]]
        return rows.merge(known, "left", "curve").fillna("").set_index("curve")

    @cached_property
    def labels(self) -> dict[str, str]:
        """The label of each curve, by key: model, strategy, experiment and nodes."""
        titled = self.study.with_titles(self._keyed)
        names = ["model", "strategy", "experiment", "cluster"]
        where = titled["cluster"].where(titled["cluster"] != "", titled["source"])
        rows = titled.assign(cluster=where)[names].to_numpy()
        return {
            str(key): " · ".join(filter(None, row))
            for key, row in zip(titled.index, rows, strict=True)
        }

    def page(self, curve: str) -> str:
        """Return the address of the page that shows a curve."""
        row = self._keyed.loc[curve]
        of_others = curve_page(str(row["model"]), str(row["strategy"] or row["source"]))
        return self.study.curve_pages.get(str(row["cell_id"]), of_others)


def fitted_curve(curves: Curves, curve: str) -> dict[str, Any]:
    """Return the template variables of a fitted curve: its figures, coefficients and answers."""
    study = curves.study
    optima, predictions = study.overhead["optima"], study.overhead["predictions"]
    mine = predictions[predictions["curve"] == curve]
    fitted = mine[mine["fitted"]]
    nodes = sorted(set(fitted["nodes"].astype(int)))
    fits, diagnosis = coefficients_of(study.overhead["fits"], curve), study.overhead["diagnosis"]
    return {
        "label": curves.labels[curve],
        "page": curves.page(curve),
        "answers": answers(optima[optima["curve"] == curve], max(nodes, default=1)),
        "figures": study.pick("fit", curve=curve),
        "fits": coefficients(fits),
        "left_out": int((mine["observed_s"].notna() & ~mine["fitted"]).sum()),
        "diagnosis": table(diagnosis[diagnosis["curve"] == curve], _DIAGNOSIS),
        "nodes": nodes,
        "few": len(nodes) < _FEW,
        "off": [data(off, "share") for off in fitted["error"].abs().agg(["median", "max"])],
        "one_machine": mine["source"].iloc[0] == "measured",
        "alone": LAWS[mine["law"].iloc[0]].alone,
    }


def answers(optima: pd.DataFrame, measured: int) -> list[dict[str, Any]]:
    """Return how many nodes are best for a curve, one answer for each batch.

    Args:
        optima: the rows of the table `optima` of one curve.
        measured: the most nodes that the curve was fitted to.

    Returns:
        Dictionaries with:
        - `batch_per_worker`, and `verdict`, which the template has a sentence for;
        - `least` and `most`: between these numbers of nodes an epoch may be shortest, by the 90 %
          intervals of the speed-ups; `fastest`: the number by the fit;
        - `pays`: from how many nodes on an epoch is shorter than on one; None if never;
        - `measured`: the most measured nodes that the table has; on these, the `speedup` of an
          epoch, its `price` as a multiple of one node's, and the seconds to the target accuracy,
          `run`, beside those on one node, `run_one`; `run_fastest`: the number of nodes that
          reach the accuracy soonest. Runs are None if they are not known.
    """
    return [_answer(rows, measured) for _, rows in optima.groupby("batch_per_worker")]


def _answer(rows: pd.DataFrame, measured: int) -> dict[str, Any]:
    is_run = rows["job"] == "run"
    epoch, run = rows[~is_run].set_index("nodes"), rows[is_run].set_index("nodes")["time"]
    possible = epoch.index[epoch["speedup_high"] >= epoch["speedup_low"].max()]
    measured = epoch.index[epoch.index <= measured].max()
    fastest, pays = epoch["time"].idxmin(), epoch.index[epoch["break_even"]]
    if possible.min() == 1:
        verdict = "one" if possible.max() == 1 else "unknown"
    else:
        verdict = "more" if fastest == epoch.index.max() else "some"
    return {
        "batch_per_worker": int(rows["batch_per_worker"].iloc[0]),
        "measured": measured,
        "verdict": verdict,
        "least": possible.min(),
        "most": possible.max(),
        "fastest": fastest,
        "pays": pays[0] if len(pays) else None,
        "speedup": epoch["speedup"][measured],
        "price": epoch["cost"][measured] / epoch["cost"][1],
        "run": run.get(measured),
        "run_one": run.get(1),
        "run_fastest": run.idxmin() if len(run) else None,
    }


def coefficients_of(fits: pd.DataFrame, curve: str) -> pd.DataFrame:
    """Return the coefficients of a curve, including those that it shares with other curves.

    Curves of one link are in different fits if the settings of their laws differ.
    """
    of_fit = ["link", "law", "settings"]
    own = fits["curve"] == curve
    mine = fits.loc[own, of_fit].drop_duplicates()
    shared = fits[of_fit].merge(mine, "left", indicator=True)["_merge"] == "both"
    return fits[own | (shared.to_numpy() & (fits["curve"] == ""))]


def coefficients(fits: pd.DataFrame, *columns: Column) -> Table:
    """Return the coefficients of laws as a table, with more columns of `fits` in front."""
    written = [_written(row) for row in fits.to_dict("records")]
    notes = fits["certain"].map({True: "", False: "poorly constrained by the data"})
    titles = fits["law"].map({name: law.title for name, law in LAWS.items()})
    rows = fits.assign(law=titles, written=pd.Series(written, fits.index, "object"), note=notes)
    return table(rows, [*columns, *_FITS])


def _written(row: dict[Any, Any]) -> Markup:
    """Return a coefficient and its interval in its unit, as markup."""
    factor, unit, per = _UNITS[row["unit"]]
    value, low, high = (data(factor * row[end], unit) for end in ("value", "low", "high"))
    return Markup('{}{}<span class="nw-range">{} to {}</span>').format(value, per, low, high)
