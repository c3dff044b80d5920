"""Where a measured or forecast efficiency stands among published ones of the same kind.

The published ones are the cases of `data/published/forecast/cases.csv`: weak scaling, with the
batch of each device fixed. The efficiency is the throughput of n devices over n times that of one.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
import pandas as pd

from nodewise.core.units import counted
from nodewise.predict.cluster_links import constants, within_name
from nodewise.results.curves import Curve
from nodewise.results.published import forecast_cases

NEAR = 1.5
"""Published numbers of devices within this factor are compared."""
_RANGE = (0.1, 0.9)
_ENOUGH = 3  # curves


class Standing(NamedTuple):
    """Published efficiencies to compare with.

    Attributes:
        low, high: 80 % of them are within this range.
        curves: one row per curve, the least efficient first: publisher, model, device, devices,
            efficiency, source, and the slowest `link`, empty if unknown.
    """

    low: float
    high: float
    curves: pd.DataFrame

    def sentence(self, efficiency: float, devices: int, node: str = "device") -> str:
        """Say where an efficiency on a number of devices stands."""
        place = (
            "within the range of"
            if self.low <= efficiency <= self.high
            else ("below" if efficiency < self.low else "above")
        )
        return (
            f"{efficiency:.0%} on {devices:,} {node}s is {place} published ones: {self.low:.0%} to "
            f"{self.high:.0%} ({counted(len(self.curves), 'curve')}, "
            f"{counted(self.curves['publisher'].nunique(), 'publisher')})."
        ).replace("%", " %")


def standing_of_curve(curve: Curve) -> tuple[float, int, Standing] | None:
    """Return the efficiency of a measured curve on its most devices, that number, and its standing.

    None if one device was not measured, the batch of a device is not fixed, or nothing compares.
    """
    for batch in reversed(curve.batches):
        step_s = {p.nodes: p.step_time for p in curve.measured if p.batch_per_worker == batch}
        most = max(step_s)
        if 1 in step_s and most > 1 and curve.scaling != "strong":
            hosts = next((p.hosts for p in curve.measured if p.nodes == most), None)
            found = standing(most, across=None if hosts is None else hosts > 1)
            return found and (step_s[1] / step_s[most], most, found)
    return None


def standing(
    devices: int,
    *,
    within: str | None = None,
    between: str | None = None,
    across: bool | None = None,
) -> Standing | None:
    """Return published efficiencies on about as many devices; None if there are too few.

    Args:
        devices: the number of devices.
        within: name of the link within a node, such as `nvlink2`; None for any.
        between: name of the link between nodes, such as `100gbit-rdma`; None for any.
        across: whether the devices are in several nodes; None if unknown.
    """
    rows = _published()
    if across is not None:
        rows = rows[rows["across"] == across]
    if across is not True and within is not None:
        rows = rows[rows["within"] == within_name(within)]
    if across is not False and between is not None:
        rows = rows[rows["between"] == between]
    far = np.log(rows["devices"] / devices).abs()
    rows = rows[far <= np.log(NEAR)].assign(far=far).sort_values("far").drop_duplicates("case")
    if len(rows) < _ENOUGH or devices < 2:
        return None
    low, high = rows["efficiency"].quantile(list(_RANGE))
    return Standing(float(low), float(high), rows.sort_values("efficiency"))


@cache
def _published() -> pd.DataFrame:
    """Return one row per published point on several devices with one on a device given."""
    cases = forecast_cases()
    cases = cases[cases["exchange"].isin(constants()["all_reduces"])]
    one = cases[cases["n_devices"] == 1].groupby("case")["throughput_samples_per_s"].median()
    rows = cases[(cases["n_devices"] > 1) & cases["case"].isin(one.index)]
    across = rows["n_devices"] > rows["devices_per_node"]
    within = rows["within_kind"].fillna("").map(within_name)
    rate = rows["between_gbit"].map("{:g}gbit".format, na_action="ignore").fillna("")
    between = (rate + "-" + rows["transport"].fillna("")).str.removesuffix("-")
    return pd.DataFrame(
        {
            **{name: rows[name] for name in ("case", "publisher", "model", "device", "source")},
            "within": within,
            "between": between,
            "link": between.where(across, within),
            "across": across,
            "devices": rows["n_devices"],
            "efficiency": rows["throughput_samples_per_s"]
            / (rows["case"].map(one) * rows["n_devices"]),
        }
    )
