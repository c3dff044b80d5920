"""The rows of the tables that are fitted together: a group has one law and one link.

All curves over one link of one machine share latency and bandwidth, all batches of one curve the
cost of an example. Rows keep what decides whether they may be fitted.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.intervals import median_error
from nodewise.predict.fit import Points
from nodewise.predict.law import LAWS, Law, law_text
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.results.curves import Curve, Measured
from nodewise.results.tables import AXES, CURVE_KEY, SINGLE

ABOUT = ("curve", "study", "experiment", "model", "strategy")
"""The columns by which every table says what a row is of."""
# The way of training of a published study, which its table does not spell out row by row.
PUBLISHED_STRATEGY = {"ntua": "multi_worker_mirrored"}

# With these one node talks to a server, or codes its gradient: `single` is not their one node. Nor
# is it that of a pipeline, which computes in micro-batches.
_NEVER_ALONE = ("server", "all-gather")
PARTS_AGREE = 0.10
"""Parts that add up to another time than the step's are not parts of it: some overlap there."""
_PARTS = ["compute_s", "wait_s", "communicate_s"]
_CURVE = [name for name in CURVE_KEY if name not in ("batch_per_worker", "nodes")]
_NEEDED = [
    *CURVE_KEY,
    *("exchange", "options", "pipeline", "machine", "oversubscribed", "step_time_s"),
    "payload_bytes",
    *("compute_s", "wait_s", "communicate_s", "apply_s", "bytes_sent_per_step"),
    *("input_s", "steps_per_epoch", "cell_id"),
]


@dataclass(frozen=True)
class CurveGroup:
    """Curves with one law and one link; `rows` has one row per curve, batch and node count.

    Columns of `rows` beside those of `curves`: `curve` (its name), `timed` (it has a step time and
    a payload), `fitted` (timed, and a core for each worker, since others do not scale alike),
    `borrowed` (measured with strategy `single`) and `noise` (relative, of the step time, by its
    launches; NaN with less than two).
    """

    law: Law
    link: str
    rows: pd.DataFrame

    @property
    def fitted(self) -> "CurveGroup":
        """The group of the rows to fit."""
        return self.where(self.rows["fitted"])

    def about(self, row: "pd.Series[Any]") -> dict[str, Any]:
        """Return what every table says of the curve that `row` is one of."""
        return {name: row[name] for name in ABOUT} | {
            "source": row["kind"],
            "data_origin": row["data_origin"],
            "law": self.law.name,
        }

    def where(self, mask: "pd.Series[bool]") -> "CurveGroup":
        """Return the group with the rows at which `mask` is true."""
        return replace(self, rows=self.rows[mask])

    def points(self, *, parts: bool = True) -> Points:
        """Return the rows as points, without their parts if asked to."""
        rows = self.rows
        names = ("compute_s", "wait_s", "communicate_s", "noise")
        known = {name: _floats(rows[name]) for name in (names if parts else names[-1:])}
        axes = ("nodes", "batch_per_worker", "payload_bytes", "step_time_s")
        return Points.of(
            *(_floats(rows[name]) for name in axes),
            model=rows["curve"].to_numpy(str),
            link=self.link,
            **known,
        )


def group_of(curves: Sequence[Curve], law: Law) -> CurveGroup:
    """Return the group of curves that somebody measured and imported; all share one link."""
    rows = [
        {
            "curve": curve.name,
            "nodes": point.nodes,
            "batch_per_worker": point.batch_per_worker,
            "payload_bytes": curve.payload,
            "step_time_s": point.step_time,
            "compute_s": point.compute,
            "wait_s": point.wait,
            "communicate_s": point.communicate,
            "noise": point.noise,
        }
        for curve in curves
        for point in curve.measured
    ]
    numbers = dict.fromkeys(("compute_s", "wait_s", "communicate_s", "noise"), "float64")
    table = pd.DataFrame(rows).astype(numbers).assign(timed=True, fitted=True)
    return CurveGroup(law, curves[0].link, table)


def curves_of(group: CurveGroup) -> list[Curve]:
    """Return the curves of a group with the points that are fitted, as a fit.json has them."""
    found = []
    for name, rows in group.fitted.rows.groupby("curve", sort=False):
        measured = tuple(
            Measured(
                nodes=int(row["nodes"]),
                batch_per_worker=float(row["batch_per_worker"]),
                step_time=float(row["step_time_s"]),
                compute=_known(row["compute_s"]),
                wait=_known(row["wait_s"]),
                communicate=_known(row["communicate_s"]),
                noise=_known(row["noise"]),
                repeats=1,
            )
            for row in rows.to_dict("records")
        )
        payload = float(rows["payload_bytes"].median())
        found.append(
            Curve(
                name=str(name),
                collective=law_text(group.law),
                clock="step_time_s",
                measured=measured,
                cluster=group.link,
                payload_bytes=payload or None,
            )
        )
    return found


def _known(value: float) -> float | None:
    return None if pd.isna(value) else float(value)


def find_groups(curves: pd.DataFrame, cells: pd.DataFrame) -> Iterator[CurveGroup]:
    """Yield the groups of the table `curves`, ordered by their links.

    A strategy that was not measured on one node borrows the `single` row of its batch. A `single`
    row that belongs to another strategy's curve makes no curve of its own. Ways without a law
    (devices of one process, tensors that are cut) are left out.

    Args:
        curves: one row per batch and nodes, with its median step time (`results.tables`).
        cells: one row per launch, for the noise; may be empty.

    Raises:
        UserError: a column is missing.
    """
    known = require(curves, _NEEDED, "curves")[_NEEDED]
    rows = _with_borrowed(_with_noise(known, cells))
    laws = {at: law_of(group) for at, group in rows.groupby("curve", sort=False)}
    links = {curve: _link(group.iloc[0]) for curve, group in rows.groupby("curve", sort=False)}
    together: dict[tuple[str, Law], list[str]] = {}
    for curve, law in laws.items():
        if law is not None:
            together.setdefault((links[curve], law), []).append(str(curve))
    for (link, law), names in sorted(together.items(), key=lambda group: (group[0][0], group[1])):
        yield CurveGroup(law, link, rows[rows["curve"].isin(names)].reset_index(drop=True))


def law_of(rows: pd.DataFrame) -> Law | None:
    """Return the law of one curve, by how it brings together what was computed; None: no law."""
    own = rows[rows["exchange"] != "none"]
    if own.empty:
        return RingAllReduce()
    first = own.iloc[0]
    options = json.loads(first["options"] or "{}")
    law = LAWS.of_exchange(first["exchange"])
    if law is None or options.get("period") == "epoch":
        return None
    return law.of_curve(options, own)


def published_curves(published: pd.DataFrame) -> pd.DataFrame:
    """Return the table `published` in the columns of `curves` that `find_groups` reads.

    Raises:
        UserError: a column is missing.
    """
    columns = ["study", "model", "dataset", "batch_per_worker", "nodes", "step_time_s"]
    rows = require(published, [*columns, "kind", "payload_bytes", "steps", "epochs"], "published")
    strategies = rows["study"].map(PUBLISHED_STRATEGY).fillna("").astype("str")
    parts = ("compute_s", "wait_s", "communicate_s", "apply_s", "bytes_sent_per_step", "input_s")
    return rows.assign(
        experiment="",
        strategy=strategies,
        cluster="",
        machine="",
        data_origin="",
        whole_epochs=True,
        exchange="ring",
        options="{}",
        pipeline="",
        oversubscribed=False,
        steps_per_epoch=rows["steps"] // rows["epochs"],
        cell_id="",
        **dict.fromkeys(parts, np.nan),
    )


def require(table: pd.DataFrame, columns: list[str], name: str) -> pd.DataFrame:
    """Return `table` if it has the columns.

    Raises:
        UserError: one is missing.
    """
    missing = [column for column in columns if column not in table]
    if missing:
        raise UserError(f"table {name}: column {missing[0]} is missing")
    return table


def _with_noise(curves: pd.DataFrame, cells: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with `noise`: the relative standard error of the median over launches."""
    require(cells, [*CURVE_KEY, "status", "step_time_s"], "cells")
    done = cells[(cells["status"] == "ok") & (cells["step_time_s"] > 0)]
    logs = done.assign(log=np.log(done["step_time_s"].astype(float))).groupby(CURVE_KEY)["log"]
    spread = (logs.std(ddof=1) * median_error(logs.size())).rename("noise")
    return curves.merge(spread.reset_index(), "left", CURVE_KEY)


def _with_borrowed(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each curve, `single` ones with the strategy of their curve."""
    rows = curves.assign(borrowed=False)
    is_single = (rows["strategy"] == SINGLE) & (rows["nodes"] == 1)
    rest, single = rows[~is_single], rows[is_single].drop(columns="strategy")
    at = [*(name for name in CURVE_KEY if name not in ("strategy", "nodes")), "machine"]
    cut = np.array([_in_micro_batches(options) for options in rest["options"]], bool)
    other = rest["exchange"].isin(_NEVER_ALONE) | cut
    alike = rest[(rest["strategy"] != SINGLE) & ~other]
    strategies = alike[[*at, "strategy"]].drop_duplicates()
    lent = single.merge(strategies, "left", at)
    lent["borrowed"] = lent["strategy"].notna()
    lent["strategy"] = lent["strategy"].fillna(SINGLE)
    together = pd.concat([rest, lent[rest.columns]]).drop_duplicates(CURVE_KEY)
    timed = (together["step_time_s"] > 0) & together["payload_bytes"].notna()
    together["compute_s"] += together["apply_s"]
    whole = together[_PARTS].sum(axis=1, skipna=False) / together["step_time_s"]
    together[_PARTS] = together[_PARTS].where((whole - 1).abs() <= PARTS_AGREE)
    return together.assign(
        curve=curve_keys(together),
        timed=timed,
        fitted=timed & ~together["oversubscribed"].astype(bool),
    ).sort_values(CURVE_KEY, ignore_index=True)


def _in_micro_batches(options: str) -> bool:
    return bool(json.loads(options or "{}").get("micro_batches", 1) > 1)


def curve_keys(rows: pd.DataFrame) -> list[str]:
    """Return the key of the curve that each row of the table `curves` is a point of."""
    return [_name(dict(zip(_CURVE, key, strict=True))) for key in rows[_CURVE].to_numpy()]


def _name(names: dict[str, Any]) -> str:
    path = [names[name] for name in AXES if names.get(name)]
    kinds = [names["kind"], f"{names['data_origin']} data" if names["data_origin"] else ""]
    extent = "whole epochs" if names["whole_epochs"] else "steps"
    return f"{'/'.join(path)} ({', '.join([*filter(None, kinds), extent])})"


def _link(first: "pd.Series[Any]") -> str:
    """Return the name of what shares latency and bandwidth.

    Software counts as much as wires, and so does the processor that runs it.
    """
    if first["kind"] == "published":
        return f"{first['study']} (published)"
    where = ", ".join(filter(None, (first["strategy"], first["cluster"], first["machine"])))
    return f"{where} ({first['kind']})"


def _floats(column: "pd.Series[Any]") -> "np.ndarray[Any, np.dtype[np.float64]]":
    return column.to_numpy(dtype=np.float64, na_value=np.nan)
