"""Make the page Your case: a forecast of the visitor's own training, and which strategy fits."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.exchanges import exchanges_where
from nodewise.models.registry import registry, title_of
from nodewise.predict import cluster_links
from nodewise.predict.answers import TrainingJob
from nodewise.predict.cluster_links import Level, link_name, read_link
from nodewise.predict.cluster_steps import Training
from nodewise.predict.forecast import devices_of, forecast, named_constant, topology_of
from nodewise.predict.steps_to_accuracy import published_laws, reference_runs
from nodewise.report import evidence
from nodewise.report.context import ReportContext
from nodewise.report.html import slug
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.published_rows import forecasts
from nodewise.report.tables import Column, table
from nodewise.results import comparisons, published

WITHIN = [*(f"nvlink{i}" for i in range(1, 6)), "nvlink-bridge"]
WITHIN += ["pcie3", "pcie4", "pcie5", "pcie3-no-p2p", "pcie4-no-p2p", "unknown"]
"""The links within a machine that the page offers, as `nodewise forecast` names them."""
BETWEEN = [f"{rate}gbit-tcp" for rate in (1, 10, 25, 50, 100)]
BETWEEN += [f"{rate}gbit-rdma" for rate in (25, 40, 100, 200, 400, "8x400")] + ["unknown"]
"""The same between machines."""
_TITLES = {"nvlink": "NVLink ", " -": " ", "pcie": "PCIe ", "8x": "8 × ", "gbit": " Gbit/s"}
_TITLES |= {"-tcp": " Ethernet (TCP)", "-rdma": " RDMA", "-no-p2p": " without peer-to-peer"}
_TITLES |= {"unknown": "not known", "rate": "another rate", "all": "all links"}
_TITLES |= {"within a node": "NVLink or PCIe, in one machine"}
_SMALLER = {"resnet50": " at 32×32 pixels", "bert_base": ", last layer and head only"}
FIRST = "ResNet-50 v1.5, fp32, batch 128: 8 × V100-SXM2-16GB, NVLink 2, 100 Gbit/s RDMA"
JOB: dict[str, Any] = {"machines": [1, 2, 4, 8], "examples": 1_281_167}
JOB |= {"price": 3, "currency": "USD"}
"""The job of the first case: an epoch of ImageNet."""
_FEW = 30  # published points of a kind of link that say too little about nine in ten
_COLUMNS = [
    Column("nodes", "Devices"),
    Column("step_s", "Step", "s", "predicted"),
    Column("speedup", "Speed-up", "×", "predicted", low="low", high="high"),
    Column("efficiency", "Efficiency", "share", "predicted"),
    Column("time", "Time", "s", "predicted"),
    Column("cost", f"Cost ({JOB['currency']})", "mean", "predicted"),
]


@page("your_case")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the page. Without JavaScript it shows the answer for its first case."""
    presets = [*published_presets(), *own_presets(study.tables["curve_points"])]
    presets.sort(key=lambda one: one["title"].lower())
    known = cluster_links.constants()
    judged = published.read("convergence/judged").set_index("judged")["p90"]
    runs = reference_runs().groupby("benchmark")
    titles = runs["model"].first()[runs["known"].all()]  # of laws whose level is known
    data = {
        "presets": {slug(one["title"]): one for one in presets},
        "within": links("within", WITHIN, {"rate": "pcie"}),
        "between": links("between", BETWEEN, {"rate-tcp": "tcp", "rate-rdma": "rdma"}),
        "laws": {
            name: {"title": titles[name]}
            | dict(zip(("steps", "examples"), law.coefficients[0].tolist(), strict=True))
            for name, law in published_laws().items()
            if name in titles
        },
        "law_off": float(judged["larger submissions"]),
        "tcp_share": known["tcp_share"],
        "bucket_bytes": known["bucket_bytes"],
        "most_fixed_s": known["most_fixed_s"],
        "switched": known["switched"],
        "checked": known["checked_devices"],
        "largest": float(forecasts()["parameters"].max()),
        "card": cluster_links.CARD,
        "clusters": {name: mean for name, (mean, _) in known["clusters"].items()},
    }
    context = {"known": data, "job": JOB, "rule": _rule(study)}
    yield Page("your-case.html", "your_case.md.j2", "Your case", context | _first_answer(data))


def _rule(study: ReportContext) -> tuple[int, int]:
    """Return how many points follow the rule that n nodes beat one if n > 1 + ratio, and all.

    The ratio is communicating ÷ computing: a step is longer by it, and trains n times as much.
    """
    rows = comparisons.parts(study.tables["curves"])
    rows = evidence.select(evidence.check_times(rows, study.tables, other="_one"))
    parallel = rows["exchange"].isin(exchanges_where(lambda exchange: exchange.data_parallel))
    rows = rows[parallel & (rows["ratio"] > 0)]
    right = (rows["speedup"] > 1) == (rows["nodes"] > 1 + rows["ratio"])
    return int(right.sum()), len(rows)


def links(level: Level, names: list[str], typed: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Return the links that the page offers, by name: their `title`, `link`, and how it was tested.

    `link` are rates by family of links. The rate of `typed` families, by name, is None. Nine in ten
    forecasts over links of the kind `judged`, of so many `points` and `publishers`, were off by a
    factor of at most 1 + `off`. A kind with few points has those of its family's kind with most.
    """
    rows = published.read("forecast/judged").rename(columns={"p90": "off"}).set_index("link")
    rows = rows[rows["points"] >= _FEW]
    all_links = {name: {**read_link(level, name)} for name in names}
    found = {}
    for name, link in (all_links | {name: {of: None} for name, of in typed.items()}).items():
        alike = [one for one in all_links if one in rows.index and [*all_links[one]] == [*link]]
        judged = max(alike, key=lambda one: (one == name, rows["points"][one]), default="all")
        found[name] = {
            "title": title_of_link(name),
            "link": link,
            "judged": title_of_link(judged),
            **{column: float(rows[column][judged]) for column in ("off", "points", "publishers")},
        }
    return found


def title_of_link(link: str) -> str:
    """Return the name of a link in words."""
    for name, words in _TITLES.items():
        link = link.replace(name, words)
    return link


def published_presets() -> Iterator[dict[str, Any]]:
    """Yield presets of published measurements on one device and more that state all links.

    Of several batches, the largest one is taken.
    """
    rows = published.scaling_runs().sort_values("batch_per_device", ascending=False)
    rows = rows[rows["exchange"].isin(cluster_links.constants()["all_reduces"])]
    rows = rows.dropna(subset=["parameters", "batch_per_device", "precision", "within_kind"])
    known = set()
    for _, points in rows.groupby("run", sort=False):
        first, rates = points.iloc[0], points.set_index("n_devices")[published.RATE]
        model, precision, device, batch = (first[name] for name in published.TRAINING)
        inside, gbit = int(first["devices_per_node"]), first["between_gbit"]
        within = link_name(first["within_kind"]) if inside > 1 else "unknown"
        between = f"{gbit:g}gbit-{first['transport']}" if gbit > 0 else "unknown"
        about = (model, precision, device, inside, within, between)
        whole = {1} < {*rates.index} and within in WITHIN and between in BETWEEN
        if whole and about not in known:
            known.add(about)
            bytes_each = [f"{one:g}" for one in named_constant("precision", precision)]
            ways = ", ".join(title_of_link(one) for one in (within, between) if one != "unknown")
            yield {
                "group": f"Published, {'several machines' if gbit > 0 else 'one machine'}",
                "title": f"{model}, {precision}, batch {batch:g}: {inside} × {device}, {ways}",
                "within": within,
                "between": between,
                "gradients": " ".join(bytes_each),
                "source": first["source"],
            } | _fields(first["parameters"], rates, batch, inside=inside)


def own_presets(points: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield a preset of each of our models on emulated nodes, in the time of a full core.

    It is of the curve of `curve_points` with the most nodes, at its largest batch.
    """
    points = points[points["rate_mbit"].notna() & points["model"].isin([*registry()])]
    for _, rows in points.sort_values(["nodes", "batch_per_worker"]).groupby("model"):
        last, model = rows.iloc[-1], str(rows["model"].iloc[-1])
        alike = rows[["curve", "batch_per_worker"]] == last[["curve", "batch_per_worker"]]
        line = rows[alike.all(axis=1)].set_index("nodes")
        rates = line.index * line["batch_per_worker"] / line["step_time_s"]
        if 1 in rates.index:
            batch, gbit = last["batch_per_worker"], last["rate_mbit"] / last["cpu_share"] / 1e3
            yield {
                "group": "Ours, on emulated nodes (times of a full core)",
                "title": f"{title_of(model)}{_SMALLER.get(model, '')}, batch {batch:g}",
                "between": "rate-tcp",
            } | _fields(last["payload_bytes"] / 4, rates, batch, inside=1, between_gbit=gbit)


def _fields(
    parameters: float, rates: "pd.Series[float]", batch: float, **numbers: float
) -> dict[str, Any]:
    """Return numbers as a form shows them, without exponents, and the measured rates."""
    numbers |= {"parameters": parameters / 1e6, "speed": rates[1], "batch": batch}
    written = {
        name: np.format_float_positional(one, precision=6, fractional=False, trim="-")
        for name, one in numbers.items()
    }
    return written | {"measured": rates.to_dict()}


def _first_answer(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer for the first case: its best row and the table."""
    case = next(one for one in data["presets"].values() if one["title"] == FIRST)
    inside, batch = int(case["inside"]), float(case["batch"])
    measured = {1: float(case["speed"])}
    training = Training(1e6 * float(case["parameters"]), batch=batch, measured=measured)
    cluster = topology_of(inside, case["within"], case["between"])
    devices = devices_of(JOB["machines"], inside)
    job = TrainingJob(examples=JOB["examples"], price=JOB["price"])
    answers = forecast(cluster, training, devices, job)
    rows = answers.table
    between, within = (1 + data[one][case[one]]["off"] for one in ("between", "within"))
    off = np.where(rows["nodes"] > inside, between, within)
    rows["low"] = (rows["speedup"] / off).where(rows["nodes"] > 1)
    rows["high"] = (rows["speedup"] * off).clip(upper=rows["nodes"])
    best = rows.iloc[answers.best("knee") or 0]
    return {"first": case, "best": best, "rows": table(rows, _COLUMNS)}
