"""Make the calibration page: how exact emulated nodes, links and split steps are."""

from collections.abc import Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

import pandas as pd
from sympy import Symbol

from nodewise.core.units import write_number, write_percent
from nodewise.predict.calibration import AllReduces, ConsecutiveAllReduces, all_reduces
from nodewise.predict.known_links import PAYLOAD_SHARE
from nodewise.report.context import ReportContext
from nodewise.report.formulas import equation
from nodewise.report.page import Page, calibration_file
from nodewise.report.pages import page
from nodewise.report.tables import MACHINE, NODE, Column, table
from nodewise.results.calibration import COLLECTIVES, Calibration, Collective, Transfer
from nodewise.results.comparisons import SHORT_S, too_short_for_parts
from nodewise.results.curve_points import PARTS_AGREE

LARGE_BYTES = 1_000_000
"""All-reduces of at least this size are large: their bytes take most of the time."""
SHARE_WITHIN, RATE_WITHIN, PARTS_WITHIN = 0.03, 0.01, 0.05
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


Examined = Mapping[Collective, AllReduces]


@page("calibration")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the calibration page, even if the study has no calibrations."""
    examined = [(one, all_reduces(one)) for one in study.calibrations if one.status == "ok"]
    emulated = study.cells[study.cells["kind"].str.startswith("emulated")]
    known = {(one.cluster.label, one.provenance.cpu) for one, _ in examined}
    nodes = zip(emulated["cluster"], emulated["machine"], strict=True)
    context = {
        "verdict": verdict([(one, found) for one, found in examined if _is_emulated(one)]),
        "calibrations": [_about(one) | _found(study, one, found) for one, found in examined],
        "failed": [_about(one) for one in study.calibrations if one.status != "ok"],
        "measured": table([_measured(one) for one, _ in examined], _MEASURED),
        "law": equation(Symbol("T"), ConsecutiveAllReduces.step),
        "payload_share": write_number(PAYLOAD_SHARE, "share"),
        "split": _split(study.cells.dropna(subset="split_step_s")),
        "emulated": len(emulated),
        "like_these": sum(one in known for one in nodes),
    }
    yield Page(_PATH, "calibration.md.j2", "Calibration", context, figures=True)


def _is_emulated(calibration: Calibration) -> bool:
    return isfinite(calibration.cluster.link_bit_s)


def verdict(examined: Sequence[tuple[Calibration, Examined]]) -> dict[str, Any] | None:
    """Return the largest deviations of all emulated nodes; None if none was calibrated.

    `longer` are the least and the most by which large all-reduces in a ring exceed the time that
    their bytes take on the link; `off` is the largest error of the formula for smaller ones.
    """
    if not examined:
        return None
    share = max(abs(one / made.cluster.share - 1) for made, _ in examined for one in _shares(made))
    rate = max(
        (
            abs(one.bits_per_s / (made.cluster.link_bit_s * one.payload_share) - 1)
            for made, _ in examined
            for one in _transfers(made)
        ),
        default=None,
    )
    told = {
        "met": share <= SHARE_WITHIN and (rate or 0.0) <= RATE_WITHIN,
        "share": f"{100 * share:.2g}\u00a0%",
        "rate": None if rate is None else f"{100 * rate:.2g}\u00a0%",
    }
    rings = [against_wire(one, found["ring"].times) for one, found in examined if "ring" in found]
    if rings:
        times = pd.concat(rings)
        large = times["payload_bytes"] >= LARGE_BYTES
        longer = times.loc[large, "against_wire"] - 1
        told |= {
            "large": f"{LARGE_BYTES / 1e6:g} MB",
            "longer": [write_percent(longer.min()), write_percent(longer.max())],
            "off": write_percent(times.loc[~large, "off"].max()),
        }
    return told


def against_wire(calibration: Calibration, times: pd.DataFrame) -> pd.DataFrame:
    """Compare measured all-reduces with their bytes on the link and with the formula.

    Args:
        calibration: the calibration, of nodes with a limited link.
        times: the times of one collective, as in `AllReduces.times`.

    Returns:
        One row per number of nodes and payload. `against_wire` is the time as a multiple of what
        the bytes of a ring take at the link's rate; `off` is the error of the formula.
    """
    sent_bits = 16 * (times["nodes"] - 1) / times["nodes"] * times["payload_bytes"]
    cluster = calibration.cluster  # a node's own time is wall time × its share
    wire_s = sent_bits / (cluster.link_bit_s * PAYLOAD_SHARE) * cluster.share
    return times.assign(
        against_wire=times["seconds"] / wire_s,
        off=(times["fitted"] / times["seconds"] - 1).abs(),
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


def _shares(calibration: Calibration) -> list[float]:
    """Return the share of a core that each busy worker got."""
    return [worker.share for launch in calibration.launches for worker in launch.busy]


def _transfers(calibration: Calibration) -> list[Transfer]:
    return [launch.transfer for launch in calibration.launches if launch.transfer]


def _measured(calibration: Calibration) -> dict[str, Any]:
    """Return the row of a calibration: shares of a core, and medians of a TCP stream."""
    shares = _shares(calibration)
    streams = [(one.bits_per_s, one.round_trip_s) for one in _transfers(calibration)]
    columns = ["achieved_bit_s", "round_trip_s"]
    return {
        "cluster": calibration.cluster.label,
        "machine": calibration.provenance.cpu,
        "launches": len(calibration.launches),
        "lowest": min(shares),
        "highest": max(shares),
        **pd.DataFrame(streams, columns=columns, dtype=float).median(),
        "kind": calibration.kind,
    }


def _found(study: ReportContext, calibration: Calibration, found: Examined) -> dict[str, Any]:
    of = {"study": calibration.study, "machine": calibration.provenance.cpu}
    streams = [
        {
            "sender": one.ends[0],
            "receiver": one.ends[1],
            "achieved_bit_s": one.bits_per_s,
            "round_trip_s": one.round_trip_s,
            "kind": calibration.kind,
        }
        for one in sorted(calibration.streams, key=lambda one: one.bits_per_s)
    ]
    return {
        "streams": table(streams, _STREAMS) if len(streams) > 1 else None,
        "slowest": streams[:1],
        "all_reduces": [
            {
                "collective": collective,
                "whose": COLLECTIVES[collective],
                "coefficients": table([one.coefficients], _COEFFICIENTS),
                "figures": study.pick("all_reduces", collective=collective, **of),
            }
            for collective, one in found.items()
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
