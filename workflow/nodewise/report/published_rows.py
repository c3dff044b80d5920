"""Rows of what others published, and of forecasts and predictions that were tested on it.

`forecasts` and `continued` have one row per tested point, with the same columns: `how` it was
predicted, `model`, `device`, `devices`, `link` (the slowest one in use), `publisher`, `source`,
`known` (what was given), `measured`, `predicted`, `low`, `high`, their `unit`, `ratio` (predicted
over measured speed), `off` (the error, as a share: the ratio or its inverse, less one) and `inside`
(whether the measured value was in the 90 % interval).
"""

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict.cluster_links import read_link
from nodewise.predict.cluster_steps import Topology, forecast_throughputs
from nodewise.predict.fit import interval_of
from nodewise.predict.question_files import Case
from nodewise.results import published

FORECAST, CONTINUED = "forecast from one point", "continued from all points but the last"
FORECASTS_FILE = "data/published/forecast/predicted_cases.csv"
CONTINUED_FILE = "data/published/curves/predicted_curves.csv"
_LINKS = {  # what sources call a link -> its title; the first one that is found
    "nvlink.?bridge": "NVLink bridges",
    "no.?p2p": "PCIe without peer-to-peer",
    "nvlink|nvswitch": "NVLink",
    "tpu": "TPU links",
    "pcie": "PCIe",
    "infiniband|omni-path|rdma": "InfiniBand",
    "ethernet|network|roce|gbe|10gb": "Ethernet",
}
MODELS = ["ResNet-50", "BERT-base", "VGG-16"]
"""Models of which many published trainings say how far they scale."""
SLOW = "10 Gbit/s TCP"
IN_MACHINE = ["NVLink", "PCIe"]
LINKS = [*IN_MACHINE, "100 Gbit/s RDMA", "50 Gbit/s TCP", SLOW]
"""The links that are compared, the fastest first."""
_SLOW_DEVICES = [2, 4, 8, 16, 32, 64]
_FAMILY = re.compile(rf"({'|'.join(MODELS)})(?!\d)")
_COLUMNS = ["how", "model", "device", "devices", "link", "publisher", "source", "known"]
_COLUMNS += ["measured", "predicted", "low", "high", "unit", "ratio", "off", "inside"]


def link_title(name: str) -> str:
    """Return the title of a link: of a kind of link of forecasts, or as a source describes it."""
    if found := re.fullmatch(r"(\d+)gbit-?(\w*)", name):
        return f"{int(found[1]):,} Gbit/s {found[2].upper()}".strip()
    titles = (title for word, title in _LINKS.items() if re.search(word, name.lower()))
    return next(titles, "not stated")


def forecasts() -> pd.DataFrame:
    """Return the forecasts of published cases from one point, with each publisher left out.

    `given_devices` and `given_value` are the known point, in examples per second.
    """
    about = published.published_cases().drop_duplicates("case").set_index("case")
    rows = published.read("forecast/predicted_cases")
    rows = rows.join(about[["model", "parameters", "device", "source"]], "case")
    found = rows.rename(columns={"value": "measured"}).assign(
        how=FORECAST,
        link=rows["link"].map(link_title),
        known=rows["given_devices"].astype(str),
        unit="examples/s",
        ratio=rows["predicted"] / rows["value"],
    )
    return _tested(found)


def continued() -> pd.DataFrame:
    """Return the predictions of the hidden last point of each published curve."""
    points = published.read("curves/scaling_curves").sort_values("n_devices")
    curves = points.groupby("curve")
    about = curves.last().drop(columns="value")
    about["known"] = curves["n_devices"].agg(lambda counts: ", ".join(map(str, counts[:-1])))
    rows = published.read("curves/predicted_curves").join(about, "curve")
    links = rows["interconnect_between"].where(rows["n_nodes"] > 1, rows["interconnect_in_node"])
    of_what = rows["quantity"].map({"run_time": "/run", "step_time": "/step"}).fillna("")
    found = rows.rename(columns={"value": "measured", "source_url": "source"}).assign(
        how=CONTINUED,
        unit=rows["unit"].where(rows["unit"].str.contains("/"), rows["unit"] + of_what),
        link=links.map(link_title, na_action="ignore").fillna("not stated"),
        ratio=np.exp(rows["ours"]),
    )
    return _tested(found)


def _tested(rows: pd.DataFrame) -> pd.DataFrame:
    inside = rows["measured"].between(rows["low"], rows["high"])
    rows = rows.assign(off=np.expm1(np.log(rows["ratio"]).abs()), inside=inside)
    return rows[[*_COLUMNS, *rows.columns.difference(_COLUMNS)]]


@cache
def scaling() -> pd.DataFrame:
    """Return how efficient published trainings of `MODELS` were on 2 devices and more.

    The columns are `model`, `link`, `devices`, `publisher`, `efficiency` (the speed of a device
    against that of one device alone), its range `low` and `high`, and `kind`. A published row is
    the median of a publisher, a predicted one the median of the forecasts of all publishers, each
    left out in turn. No case has a link of `SLOW` between machines with one device each: there, the
    V100s of all cases are forecast.
    """
    rows = forecasts()
    rows = rows[(rows["given_devices"] == 1) & rows["link"].isin(LINKS)]
    rows = pd.concat([rows, pd.DataFrame(_slow_forecasts())], ignore_index=True)
    rows["model"] = rows["model"].str.extract(_FAMILY, expand=False)
    each = rows["given_value"] * rows["devices"]
    values = ["measured", "predicted", "low", "high"]
    rows[values] = rows[values].div(each, axis=0)
    at = ["model", "link", "devices"]
    measured = rows.groupby([*at, "publisher"])["measured"].median().dropna().reset_index()
    expected = rows.groupby(at)[["predicted", "low", "high"]].median().reset_index()
    return pd.concat(
        [
            measured.rename(columns={"measured": "efficiency"}).assign(kind="published"),
            expected.rename(columns={"predicted": "efficiency"}).assign(kind="predicted"),
        ],
        ignore_index=True,
    )


def _slow_forecasts() -> Iterator[dict[str, Any]]:
    """Yield forecasts of V100s, one in each machine, with a slow link between machines."""
    cluster = Topology(1, None, read_link("between", "10gbit-tcp"))
    for row in published.published_cases().to_dict("records"):
        if row["n_devices"] == 1 and "V100" in row["device"] and _FAMILY.match(row["model"]):
            _, training = Case.model_validate(row).setup()
            drawn = forecast_throughputs(cluster, training, _SLOW_DEVICES)
            ends = zip(_SLOW_DEVICES, drawn[0], *interval_of(drawn), strict=True)
            names = ("devices", "predicted", "low", "high")
            about = {"model": row["model"], "link": SLOW, "given_value": training.measured[1]}
            yield from (about | dict(zip(names, values, strict=True)) for values in ends)
