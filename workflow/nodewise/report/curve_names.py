"""What readers call a fitted curve: its key is a path, for tables and addresses."""

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pandas as pd

from nodewise.predict.fit_queries import CURVE
from nodewise.predict.queries import with_labels
from nodewise.report import evidence
from nodewise.report.context import ReportContext, curve_page
from nodewise.results.columns import CURVE_KEY, SINGLE
from nodewise.results.curve_points import curve_keys


@dataclass(frozen=True)
class Curves:
    """The fitted curves of a study, by key."""

    study: ReportContext

    @cached_property
    def labels(self) -> dict[str, str]:
        """What each curve is called: its model, strategy and nodes; its experiment if need be.

        No two have the same label.
        """
        rows = self._keyed.to_dict("index")
        known = {str(curve): self._label(row) for curve, row in rows.items()}
        known = _apart(known, {key: self.experiment(key) for key in known})
        known = _apart(known, {str(key): row["experiment"] for key, row in rows.items()})
        return _apart(known, {key: key for key in known})

    def experiment(self, curve: str) -> str:
        """Return the title of a curve's experiment, or its name if it has none; empty without."""
        return self.study.experiment_title(str(self._keyed.loc[curve, "experiment"]))

    def page(self, curve: str) -> str:
        """Return the address of the page that a curve is on."""
        row = self._keyed.loc[curve]
        return curve_page(str(row["model"]), str(row["strategy"] or row["source"]))

    def points(self, curve: str) -> pd.DataFrame:
        """Return our own points of a curve, with labels: rows of the table `curves`."""
        return self._points[self._points["curve"] == curve]

    def against_plain(self, curve: str) -> "pd.Series[float]":
        """Return the speed-ups over one process of a curve's points that count as evidence."""
        single = self._points[(self._points["strategy"] == SINGLE) & (self._points["nodes"] == 1)]
        at = [name for name in CURVE_KEY if name not in ("strategy", "nodes")]
        single = single[[*at, "repeats", "flags"]].drop_duplicates(at)
        mine = self.points(curve).merge(single, "inner", at, suffixes=("", "_one"))
        mine = evidence.of_times(mine[mine["nodes"] > 1], self.study.tables, other="_one")
        return evidence.counting(mine)["speedup"].dropna()

    @cached_property
    def _keyed(self) -> pd.DataFrame:
        """What the tables say of each curve, and its `cluster`: one row per key."""
        told = self.study.overhead["predictions"][CURVE].drop_duplicates("curve")
        clusters = self._points.drop_duplicates("curve")[["curve", "cluster"]]
        return told.merge(clusters, "left", "curve").fillna({"cluster": ""}).set_index("curve")

    @cached_property
    def _points(self) -> pd.DataFrame:
        curves = with_labels(self.study.tables["curves"])
        return curves.assign(curve=pd.Series(curve_keys(curves), curves.index, "str"))

    def _label(self, row: dict[Any, Any]) -> str:
        """Return model, strategy and nodes in one line."""
        nodes = f"nodes of {row['cluster']}" if row["cluster"] else row["source"]
        where = {
            "published": "published",
            "imported": "imported",
            "measured": "processes of one machine",
            "emulated soft": f"{nodes}, shares held softly",
        }
        told = (self.study.model_title(row["model"]), self.study.strategy_title(row["strategy"]))
        return " · ".join(filter(None, [*told, where.get(row["source"], nodes)]))


def _apart(labels: dict[str, str], more: dict[str, str]) -> dict[str, str]:
    """Return the labels; those that several share with `more` behind them."""
    shared = Counter(labels.values())
    return {
        key: f"{label} · {more[key]}" if shared[label] > 1 and more[key] else label
        for key, label in labels.items()
    }
