"""Predict step times over links of other rates, by scaling the fitted inverse bandwidth.

The bandwidth that is achieved is assumed to be the same share of the link's rate at all rates; the
fitted bandwidth contains that share. Latency and all else stay the same. Rates are in the node's
own time: a link of 100 Mbit/s counts as 500 Mbit/s for a node whose time passes 5 times slower.
"""

import re
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from nodewise.predict.curve_groups import CurveGroup, rows_of
from nodewise.predict.fit import TAILS, Fit
from nodewise.predict.law import At, Floats

ASKED = np.geomspace(10e6, 10e9, 13)
"""Rates to predict, in bit/s: four per factor of ten."""
NODES = (2, 4, 8, 16)

PAYLOAD_SHARE = 1448 / 1514
"""The share of payload in a full Ethernet frame; the rest are Ethernet, IP and TCP headers."""
_LABEL = re.compile(r"(?P<share>[\d.]+) core, (?P<rate>[\d.]+) Mbit/s(?P<rest>.*)")
_SAME = [
    *("machine", "model", "dataset", "strategy", "kind", "data_origin", "whole_epochs"),
    *("batch_per_worker", "pipeline"),
]


class EmulatedLink(NamedTuple):
    """The link of an emulated cluster with equal nodes.

    `rate_bit_s` is in the node's own time. `others` is the rest of the cluster's label.
    """

    rate_bit_s: float
    others: str

    @property
    def seconds_per_byte(self) -> float:
        """Seconds per byte of payload, including headers of full frames."""
        return 8 / (self.rate_bit_s * PAYLOAD_SHARE)


def link_of(cluster: str) -> EmulatedLink | None:
    """Return the link of a cluster from its label, or None if it is not an emulated cluster.

    Example:
        >>> link_of("0.2 core, 100 Mbit/s")
        EmulatedLink(rate_bit_s=500000000.0, others='0.2')
    """
    found = _LABEL.fullmatch(cluster)
    if found is None:
        return None
    rate = 1e6 * float(found["rate"]) / float(found["share"])
    return EmulatedLink(rate, found["share"] + found["rest"])


def rate_rows(group: CurveGroup, fitted: Fit, measured: pd.DataFrame) -> list[dict[str, Any]]:
    """Return rows of `rates` for the curves of a group; none if link or law have no bandwidth.

    Args:
        group: curves over one link, as from `objectives.answerable`.
        fitted: the fit of the group.
        measured: the rows of all groups, for measurements over other links.
    """
    link = link_of(group.first["cluster"]) if len(group.rows) else None
    if link is None or ("seconds_per_byte", group.link) not in fitted.coefficients:
        return []
    rows: list[dict[str, Any]] = []
    for (_, batch), line in group.rows.groupby(["curve", "batch_per_worker"]):
        seen = _seen(line, link, measured)
        about = group.about(line.iloc[0]) | {"batch_per_worker": batch}
        table = _asked(group, fitted, line, link, np.union1d(ASKED, seen["rate_bit_s"]))
        table = table.merge(seen, "left", ["rate_bit_s", "nodes"]).fillna({"cell_id": ""})
        known = (table["rate_bit_s"] == link.rate_bit_s) & (table["nodes"] <= line["nodes"].max())
        inside = table["rate_bit_s"].between(seen["rate_bit_s"].min(), seen["rate_bit_s"].max())
        table["kind"] = np.where(known, "fitted", "predicted")
        table["beyond"] = ~inside | (table["nodes"] > seen["nodes"].max())
        rows += rows_of(table.assign(**about))
    return rows


def _seen(line: pd.DataFrame, link: EmulatedLink, measured: pd.DataFrame) -> pd.DataFrame:
    """Return the points of a line, and those of equal lines over links of other rates."""
    same = (measured[_SAME] == line.iloc[0][_SAME]).all(axis=1) & measured["fitted"]
    alike = measured[same]
    others = [
        other is not None and other.others == link.others and other.rate_bit_s != link.rate_bit_s
        for other in map(link_of, alike["cluster"])
    ]
    points = pd.concat([line, alike[others]])
    links = map(link_of, points["cluster"])
    one = points[points["nodes"] == 1].groupby("curve")["step_time_s"].first()
    return pd.DataFrame(
        {
            "rate_bit_s": [other.rate_bit_s for other in links if other is not None],
            "nodes": points["nodes"],
            "observed_s": points["step_time_s"],
            "observed_efficiency": points["curve"].map(one) / points["step_time_s"],
            "cell_id": points["cell_id"],
        }
    ).drop_duplicates(["rate_bit_s", "nodes"])


def _asked(
    group: CurveGroup, fitted: Fit, line: pd.DataFrame, link: EmulatedLink, rates: Floats
) -> pd.DataFrame:
    """Return predictions for a line at `rates`: seconds and efficiency, with intervals."""
    at = At.of([1, *NODES], line["batch_per_worker"].iloc[0], line["payload_bytes"].median())
    curve = str(line["curve"].iloc[0])
    column = fitted.coefficients.index(("seconds_per_byte", group.link))
    tables = []
    for rate in rates:
        factor = np.ones(len(fitted.values))
        factor[column] = link.rate_bit_s / rate
        scaled = replace(fitted, values=fitted.values * factor, draws=fitted.draws * factor)
        step_s = scaled.evaluate(at, curve, group.link)
        drawn = scaled.draw(at, curve, group.link)
        # if a draw attributes the whole step to a slow link, a fast link would leave no time at all
        drawn = np.where((drawn > 0).all(axis=1, keepdims=True), drawn, np.nan)
        low_s, high_s = np.nanquantile(drawn, TAILS, axis=0)
        low, high = np.nanquantile(drawn[:, :1] / drawn, TAILS, axis=0)
        values = {
            "nodes": at.nodes.astype(int),
            "fitted_s": step_s,
            "low_s": low_s,
            "high_s": high_s,
            "efficiency": step_s[0] / step_s,
            "efficiency_low": low,
            "efficiency_high": high,
        }
        tables.append(pd.DataFrame(values).assign(rate_bit_s=rate).iloc[1:])
    return pd.concat(tables, ignore_index=True)
