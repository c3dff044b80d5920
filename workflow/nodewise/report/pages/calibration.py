"""Make the calibration page: how exact emulated nodes, links and split steps are."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import pandas as pd
from sympy import Symbol

from nodewise.core.units import write_number, write_percent
from nodewise.predict.calibration import SHARE_WITHIN, ConsecutiveAllReduces, Findings, examine
from nodewise.predict.known_links import PAYLOAD_SHARE
from nodewise.report.context import ReportContext
from nodewise.report.formulas import equation
from nodewise.report.page import Page, calibration_file
from nodewise.report.pages import page
from nodewise.report.tables import MACHINE, NODE, Column, table
from nodewise.results.calibration import COLLECTIVES, Calibration
from nodewise.results.comparisons import SHORT_S, too_short_for_parts
from nodewise.results.curve_points import PARTS_AGREE

LARGE_BYTES = 1_000_000
"""All-reduces of at least this size are large: their bytes take most of the time."""
RATE_WITHIN, PARTS_WITHIN = 0.01, 0.05
_PATH = "calibration.html"
_KIND = Column("kind", "Kind")
_MEASURED = [
    NODE,
    MACHINE,
    Column("launches", "Launches"),
    Column("lowest", "Share of a core, lowest", "share", kind_from="kind"),
    Column("highest", "Highest", "share", kind_from="kind"),
    Column("achieved_bit_s", "Payload received over a link", "bit/s", kind_from="kind"),
    Column("round_trip_s", "Round trip of a byte (wall time)", "s", kind_from="kind"),
    _KIND,
]
_COEFFICIENTS = [
    Column(name, title, unit, "fitted", low=f"{name}_low", high=f"{name}_high")
    for name, title, unit in (
        ("software_s", "Software overhead per call: s", "s"),
        ("latency_s", "Latency per message: α", "s"),
        ("bandwidth_bytes_per_s", "Bandwidth: 1/β", "B/s"),
    )
]
_STREAMS = [
    Column("sender", "From"),
    Column("receiver", "To"),
    Column("achieved_bit_s", "Payload received", "bit/s", kind_from="kind"),
    Column("round_trip_s", "Round trip of a byte", "s", kind_from="kind"),
    _KIND,
]


@page("calibration")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the calibration page, even if the study has no calibrations."""
    examined = [(one, examine(one)) for one in study.calibrations if one.status == "ok"]
    emulated = study.cells[study.cells["kind"].str.startswith("emulated")]
    known = {(one.cluster.label, one.provenance.cpu) for one, _ in examined}
    nodes = zip(emulated["cluster"], emulated["machine"], strict=True)
    context = {
        "verdict": _verdict([(one, found) for one, found in examined if _is_emulated(one)]),
        "calibrations": [_about(one) | _found(study, one, found) for one, found in examined],
        "failed": [_about(one) for one in study.calibrations if one.status != "ok"],
        "measured": table([_measured(one, found) for one, found in examined], _MEASURED),
        "law": equation(Symbol("T"), ConsecutiveAllReduces.step),
        "payload_share": write_number(PAYLOAD_SHARE, "share"),
        "split": _split(study.cells.dropna(subset="split_step_s")),
        "emulated": len(emulated),
        "like_these": sum(one in known for one in nodes),
    }
    yield Page(_PATH, "calibration.md.j2", "Calibration", context, figures=True)


def _is_emulated(calibration: Calibration) -> bool:
    return isfinite(calibration.cluster.link_bit_s)


def _verdict(examined: Sequence[tuple[Calibration, Findings]]) -> dict[str, Any] | None:
    """Return the largest deviations of all emulated nodes; None if none was calibrated.

    `longer` are the least and the most by which large all-reduces in a ring exceed the time that
    their bytes take on the link; `off` is the largest error of the formula for smaller ones.
    """
    if not examined:
        return None
    share = max(found.shares["error"].abs().max() for _, found in examined)
    rates = pd.concat([found.links["error"].abs() for _, found in examined])
    verdict = {
        "met": share <= SHARE_WITHIN and bool((rates <= RATE_WITHIN).all()),
        "share": f"{100 * share:.2g}\u00a0%",
        "rate": f"{100 * rates.max():.2g}\u00a0%" if len(rates) else None,
    }
    rings = [
        against_wire(one, found.all_reduces["ring"].times)
        for one, found in examined
        if "ring" in found.all_reduces
    ]
    if rings:
        times = pd.concat(rings)
        large = times["payload_bytes"] >= LARGE_BYTES
        longer = times.loc[large, "against_wire"] - 1
        verdict |= {
            "large": f"{LARGE_BYTES / 1e6:g} MB",
            "longer": [write_percent(longer.min()), write_percent(longer.max())],
            "off": write_percent(times.loc[~large, "off"].max()),
        }
    return verdict


def against_wire(calibration: Calibration, times: pd.DataFrame) -> pd.DataFrame:
    """Compare measured all-reduces with their bytes on the link and with the formula.

    Args:
        calibration: the calibration, of nodes with a limited link.
        times: the times of one collective, as in `AllReduces.times`.

    Returns:
        One row per number of nodes and payload. `against_wire` is the time as a multiple of what
        the bytes of a ring take at the link's rate; `off` is the error of the formula.
    """
    at = ["nodes", "payload_bytes"]
    known = times.pivot_table("seconds", at, "role").reset_index()
    sent_bits = 16 * (known["nodes"] - 1) / known["nodes"] * known["payload_bytes"]
    cluster = calibration.cluster  # a node's own time is wall time × its share
    wire_s = sent_bits / (cluster.link_bit_s * PAYLOAD_SHARE) * cluster.share
    return known.assign(
        against_wire=known["observed"] / wire_s,
        off=(known["fitted"] / known["observed"] - 1).abs(),
    )


def _about(calibration: Calibration) -> dict[str, Any]:
    return {
        "node": calibration.cluster.label,
        "machine": calibration.provenance.cpu,
        "status": calibration.status,
        "failure": calibration.failure,
        "outside": [
            {"launch": place, "nodes": launch.nodes, "reasons": launch.conditions.outside}
            for place, launch in enumerate(calibration.launches, 1)
            if launch.conditions.outside
        ],
        "command": calibration.provenance.command,
        "file": calibration_file(calibration),
    }


def _measured(calibration: Calibration, found: Findings) -> dict[str, Any]:
    """Return the row of a calibration: shares of a core, and medians of a TCP stream."""
    return {
        "cluster": calibration.cluster.label,
        "machine": calibration.provenance.cpu,
        "launches": len(calibration.launches),
        "lowest": found.shares["lowest"].min(),
        "highest": found.shares["highest"].max(),
        **found.links[["achieved_bit_s", "round_trip_s"]].astype(float).median(),
        "kind": calibration.kind,
    }


def _found(study: ReportContext, calibration: Calibration, found: Findings) -> dict[str, Any]:
    of = {"study": calibration.study, "machine": calibration.provenance.cpu}
    streams = found.streams.assign(kind=calibration.kind)
    return {
        "streams": table(streams, _STREAMS) if len(streams) > 1 else None,
        "slowest": streams.head(1).to_dict("records"),
        "all_reduces": [
            {
                "collective": collective,
                "whose": COLLECTIVES[collective],
                "coefficients": table([all_reduces.own_time], _COEFFICIENTS),
                "figures": study.pick("all_reduces", collective=collective, **of),
            }
            for collective, all_reduces in found.all_reduces.items()
        ],
    }


def _split(cells: pd.DataFrame) -> dict[str, Any] | None:
    """Compare split steps with fused steps, and with the sums of their parts; None without any."""
    if cells.empty:
        return None
    timed = cells["split_timed"].dropna()
    apart = (cells["split_step_s"] / cells["step_time_s"] - 1).abs() > PARTS_AGREE
    return {
        "cells": len(cells),
        "timed": len(timed),
        "added": int(((timed - 1).abs() <= PARTS_WITHIN).sum()),
        "within": write_percent(PARTS_WITHIN),
        "apart": int(apart.sum()),
        "apart_by": write_percent(PARTS_AGREE),
        "short": int((apart & too_short_for_parts(cells)).sum()),
        "short_below": write_number(SHORT_S, "s"),
    }
