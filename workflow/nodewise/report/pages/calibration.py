"""Make the calibration page: how exact emulated nodes, links and split steps are."""

from collections.abc import Iterator
from math import isfinite
from typing import Any

import numpy as np
import pandas as pd
from sympy import Symbol

from nodewise.core.units import counted, write_number, write_percent
from nodewise.predict.calibration import (
    SHARE_WITHIN,
    ConsecutiveAllReduces,
    Findings,
    examine,
)
from nodewise.predict.known_links import PAYLOAD_SHARE
from nodewise.report.addresses import calibration_file
from nodewise.report.context import ReportContext
from nodewise.report.formulas import equation
from nodewise.report.html import number
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import BATCH, EXPERIMENT, KIND, LAUNCH, NODES, STRATEGY, Column, table
from nodewise.results.calibration import COLLECTIVES, Calibration
from nodewise.results.comparisons import SHORT_S, too_short_for_parts
from nodewise.results.curve_points import PARTS_AGREE

PARTS_WITHIN = 0.05
_PATH = "calibration.html"
SHOWN = 40  # cells in the table: those whose split step differs most from the fused one

_LAWS = {"time": equation(Symbol("T"), ConsecutiveAllReduces.step)}
_TITLES = {
    "software_s": ("Software overhead per call: s", "s"),
    "latency_s": ("Latency per message: α", "s"),
    "bandwidth_bytes_per_s": ("Bandwidth: 1/β", "B/s"),
}
_COEFFICIENTS = [
    Column(name, title, unit, "fitted", low=f"{name}_low", high=f"{name}_high")
    for name, (title, unit) in _TITLES.items()
]
_SPLIT = [
    STRATEGY,
    EXPERIMENT,
    BATCH,
    NODES,
    LAUNCH,
    KIND,
    Column("step_time_s", "Fused step", "s", kind_from="label"),
    Column("split_step_s", "Split step", "s", kind_from="label"),
    Column("against_fused", "Split ÷ fused", "×", kind_from="label"),
]
_TIMED = Column("split_timed", "Its parts ÷ split step", "share", kind_from="label")


@page("calibration")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the calibration page, even if the study has no calibrations."""
    shown = [
        {
            "about": _about(one),
            "found": _found(study, one, examine(one)) if one.status == "ok" else None,
        }
        for one in study.calibrations
    ]
    emulated = study.cells[study.cells["kind"].str.startswith("emulated")]
    known = {(c.cluster.label, c.provenance.cpu) for c in study.calibrations if c.status == "ok"}
    nodes = zip(emulated["cluster"], emulated["machine"], strict=True)
    context = {
        "calibrations": shown,
        "only_hosts": bool(shown) and not any(_is_emulated(one) for one in study.calibrations),
        "laws": _LAWS if any(one["found"] and one["found"]["all_reduces"] for one in shown) else {},
        "split": _split(study),
        "emulated": len(emulated),
        "like_these": sum(one in known for one in nodes),
    }
    yield Page(_PATH, "calibration.md.j2", "Calibration", context, figures=True)


def _is_emulated(calibration: Calibration) -> bool:
    return isfinite(calibration.cluster.link_bit_s)


def _about(calibration: Calibration) -> dict[str, Any]:
    cluster, made = calibration.cluster, calibration.provenance
    outside = [
        {"launch": place, "nodes": launch.nodes, "reasons": launch.conditions.outside}
        for place, launch in enumerate(calibration.launches, 1)
        if launch.conditions.outside
    ]
    emulated = _is_emulated(calibration)
    facts = [
        ("Name of the study", calibration.study),
        ("A node", cluster.label),
        *([("Wall seconds per second of a node", f"{1 / cluster.share:g}")] if emulated else []),
        ("CPU limit", made.cpu_limit),
        ("Network", made.network),
        ("Launches", len(calibration.launches)),
        ("Order of node counts", ", ".join(str(launch.nodes) for launch in calibration.launches)),
        ("Took", _took(calibration)),
        ("Started", f"{calibration.started_at:%Y-%m-%d %H:%M:%S %Z}"),
        ("Processor", f"{made.cpu}, {made.cores} cores"),
        ("Kernel", made.kernel),
        ("Commit", made.commit or "unknown"),
    ]
    return {
        "cluster": cluster.label,
        "emulated": emulated,
        "machine": made.cpu,
        "status": calibration.status,
        "failure": calibration.failure,
        "facts": facts,
        "outside": outside,
        "command": made.command,
        "file": calibration_file(calibration),
    }


def _took(calibration: Calibration) -> object:
    seconds = (calibration.finished_at - calibration.started_at).total_seconds()
    return number(seconds, "s", "measured")


def _found(study: ReportContext, calibration: Calibration, found: Findings) -> dict[str, Any]:
    kind = calibration.kind
    of = {"study": calibration.study, "machine": calibration.provenance.cpu}
    return {
        "share": write_percent(calibration.cluster.share),
        "shares": table(found.shares, _shares(kind)),
        "share_within": write_percent(SHARE_WITHIN),
        "shares_missed": int((found.shares["error"].abs() > SHARE_WITHIN).sum()),
        "links": table(found.links.round({"error": 4}), _links(found.links, kind))
        if len(found.links)
        else None,
        "streams": _streams(found.streams, kind) if len(found.streams) > 1 else None,
        "payload_share": write_number(PAYLOAD_SHARE, "share"),
        "all_reduces": [
            {"collective": collective, "whose": COLLECTIVES[collective]}
            | {"coefficients": table([all_reduces.own_time], _COEFFICIENTS)}
            | {"figures": study.pick("all-reduce", collective=collective, **of)}
            for collective, all_reduces in found.all_reduces.items()
        ],
    }


def _streams(streams: pd.DataFrame, kind: str) -> dict[str, Any]:
    """Return the table of streams between more than two hosts, with the slowest and the fastest.

    `streams` is sorted, the slowest first.
    """
    slowest, fastest = streams.iloc[0], streams.iloc[-1]
    return {
        "table": table(streams, _stream_columns(kind)),
        "slowest": number(slowest["achieved_bit_s"], "bit/s", kind),
        "fastest": number(fastest["achieved_bit_s"], "bit/s", kind),
        "between": f"{slowest['sender']} and {slowest['receiver']}",
    }


def _split(study: ReportContext) -> dict[str, Any] | None:
    """Compare the split step of each cell with its fused step, and with the sum of its parts.

    None is returned if no cell has a split step.
    """
    cells = study.cells.dropna(subset="split_step_s")
    if cells.empty:
        return None
    rows = cells.assign(against_fused=cells["split_step_s"] / cells["step_time_s"])
    off = np.log(rows["against_fused"]).abs().sort_values(ascending=False, kind="stable")
    timed = rows["split_timed"].dropna()
    agree = (rows["against_fused"] - 1).abs() <= PARTS_AGREE
    shown = rows.loc[off.index[:SHOWN]]
    ratios = rows.groupby(["label", "nodes"])["against_fused"].median().reset_index()
    columns = [*_SPLIT, *([_TIMED] if shown["split_timed"].notna().any() else [])]
    return {
        "table": table(study.with_links(shown, _PATH), columns),
        "shown": len(shown),
        "cells": len(rows),
        "timed": len(timed),
        "missed": int(((timed - 1).abs() > PARTS_WITHIN).sum()),
        "apart": int((~agree).sum()),
        "apart_by": write_percent(PARTS_AGREE),
        "short": int((~agree & too_short_for_parts(rows)).sum()),
        "short_below": write_number(SHORT_S, "s"),
        "within": write_percent(PARTS_WITHIN),
        "ratios": [
            (counted(int(nodes), "node"), number(ratio, "×", str(label)))
            for label, nodes, ratio in ratios.to_numpy()
        ],
    }


def _shares(kind: str) -> list[Column]:
    return [
        NODES,
        Column("launches", "Launches"),
        Column("share", "Share of a core, median", "share", kind),
        Column("lowest", "Lowest", "share", kind),
        Column("highest", "Highest", "share", kind),
        Column("error", "Largest deviation", "share", kind),
    ]


def _links(links: pd.DataFrame, kind: str) -> list[Column]:
    """Return the columns that have any values in `links`."""
    columns = [
        Column("launch", "Launch"),
        Column("configured_bit_s", "Configured (whole frames)", "bit/s", kind),
        Column("expected_bit_s", "Expected for payload", "bit/s", kind),
        Column("achieved_bit_s", "Payload received", "bit/s", kind),
        Column("error", "Deviation", "share", kind),
        Column("round_trip_s", "Round trip of a byte (wall time)", "s", kind),
    ]
    return [column for column in columns if links[column.name].notna().any()]


def _stream_columns(kind: str) -> list[Column]:
    return [
        Column("sender", "From"),
        Column("receiver", "To"),
        Column("achieved_bit_s", "Payload received", "bit/s", kind),
        Column("round_trip_s", "Round trip of a byte", "s", kind),
    ]
