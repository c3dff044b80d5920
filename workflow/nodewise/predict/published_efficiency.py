"""Where a measured or forecast efficiency stands among published ones of the same kind.

The published ones are the cases of `data/published/forecast/cases.csv`: weak scaling, with the
batch of each device fixed. The efficiency is the throughput of n devices over n times that of one.
"""

from functools import cache

import numpy as np
import pandas as pd

from nodewise.core.units import counted, write_percent
from nodewise.predict.cluster_links import constants, link_name
from nodewise.results.curves import Curve
from nodewise.results.published import RATE, published_cases

_NEAR = 1.5  # published numbers of devices within this factor are compared
_ENOUGH = 3  # curves

Standing = tuple[str, pd.DataFrame]
"""Where an efficiency stands among 80 % of the published ones, as a sentence; and these, one row
per curve, the least efficient first: publisher, model, device, devices, efficiency, source, and the
slowest `link`, empty if unknown."""


def standing_of_curve(curve: Curve) -> Standing | None:
    """Return where a measured curve stands on its most devices.

    None if one device was not measured, the batch of a device is not fixed, or nothing compares.
    """
    for batch in reversed(curve.batches):
        points = {p.nodes: p for p in curve.measured if p.batch_per_worker == batch}
        most = max(points)
        if 1 in points and most > 1 and curve.scaling != "strong":
            efficiency, hosts = points[1].step_time_s / points[most].step_time_s, points[most].hosts
            across = None if hosts is None else hosts > 1
            return standing(efficiency, most, across=across, node=curve.node)
    return None


def standing(
    efficiency: float,
    devices: int,
    within: str | None = None,
    between: str | None = None,
    across: bool | None = None,
    *,
    node: str = "device",
) -> Standing | None:
    """Return where an efficiency stands among published ones; None if there are too few.

    Published ones on about as many devices are compared, of the link `within` a node, such as
    `nvlink2`, or if they are `across` nodes of the link `between` nodes, such as `100gbit-rdma`.
    None stands for any. `node` is the word for a device.
    """
    rows, link = _published(), between if across else within
    if across is not None:
        rows = rows[rows["across"] == across]
    if link is not None:
        rows = rows[rows["link"] == link_name(link)]
    far = np.log(rows["devices"] / devices).abs()
    rows = rows[far <= np.log(_NEAR)].assign(far=far).sort_values("far").drop_duplicates("case")
    if len(rows) < _ENOUGH:
        return None
    low, high = rows["efficiency"].quantile([0.1, 0.9])
    place = "below" if efficiency < low else "above" if efficiency > high else "within the range of"
    here, low, high = map(write_percent, (efficiency, low, high))
    many = f"{counted(len(rows), 'curve')}, {counted(rows['publisher'].nunique(), 'publisher')}"
    told = f"{here} on {devices:,} {node}s is {place} published ones: {low} to {high} ({many})."
    return told, rows.sort_values("efficiency")


@cache
def _published() -> pd.DataFrame:
    """Return one row per published point on several devices with one on a device given."""
    rows = published_cases()
    rows = rows[rows["exchange"].isin(constants()["all_reduces"])]
    one = rows[rows["n_devices"] == 1].groupby("case")[RATE].median()
    rows = rows[(rows["n_devices"] > 1) & rows["case"].isin(one.index)]
    across = rows["n_devices"] > rows["devices_per_node"]
    within = rows["within_kind"].fillna("").map(link_name)
    rate = rows["between_gbit"].map("{:g}gbit".format, na_action="ignore").fillna("")
    between = (rate + "-" + rows["transport"].fillna("")).str.removesuffix("-")
    return rows.assign(
        link=between.where(across, within),
        across=across,
        devices=rows["n_devices"],
        efficiency=rows[RATE] / (rows["case"].map(one) * rows["n_devices"]),
    )
