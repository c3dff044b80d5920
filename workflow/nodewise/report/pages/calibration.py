"""Make the calibration page: how exact emulated nodes, links and split steps are."""

from collections.abc import Iterator, Sequence
from math import isfinite
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import write_number, write_percent
from nodewise.predict.known_links import PAYLOAD_SHARE
from nodewise.report.context import ReportContext
from nodewise.report.page import Page, calibration_file
from nodewise.report.pages import page
from nodewise.report.tables import MACHINE, NODE, Column, table
from nodewise.results.calibration import Calibration, ring_times
from nodewise.results.curve_points import PARTS_AGREE

LARGE_BYTES = 1_000_000
"""All-reduces of at least this size are large: their bytes take most of the time."""
SHARE_WITHIN, RATE_WITHIN, PARTS_WITHIN = 0.03, 0.01, 0.05
_MEASURED = [
    NODE,
    MACHINE,
    Column("launches", "Launches"),
    Column("lowest", "Share of a core, lowest", "share", kind_from="kind"),
    Column("highest", "Highest", "share", kind_from="kind"),
    Column("achieved_bit_s", "Data received over a link", "bit/s", kind_from="kind"),
    Column("round_trip_s", "Round trip of a byte (wall time)", "s", kind_from="kind"),
    Column("restless", "Launches not at rest"),
    Column("kind", "Kind"),
    Column("file", "Every launch"),
]


@page("calibration")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield the calibration page, even if the study has no calibrations."""
    done = [one for one in study.calibrations if one.status == "ok"]
    emulated = study.cells[study.cells["kind"] != "measured"]
    known = {(one.cluster.label, one.provenance.cpu) for one in done}
    nodes = zip(emulated["cluster"], emulated["machine"], strict=True)
    split = study.cells.dropna(subset="split_step_s")
    timed = split["split_timed"].dropna()
    context = {
        "verdict": verdict([one for one in done if isfinite(one.cluster.link_bit_s)]),
        "calibrations": [(one, calibration_file(one)) for one in done],
        "failed": [(one, calibration_file(one)) for one in study.calibrations if one not in done],
        "measured": table([_measured(one) for one in done], _MEASURED),
        "payload_share": write_number(PAYLOAD_SHARE, "share"),
        "split": {
            "cells": len(split),
            "agree": int(
                (split["split_step_s"] / split["step_time_s"] - 1).abs().le(PARTS_AGREE).sum()
            ),
            "agree_within": write_percent(PARTS_AGREE),
            "timed": len(timed),
            "added": int((timed - 1).abs().le(PARTS_WITHIN).sum()),
            "added_within": write_percent(PARTS_WITHIN),
        },
        "emulated": len(emulated),
        "like_these": sum(one in known for one in nodes),
    }
    yield Page("calibration.html", "calibration.md.j2", "Calibration", context)


def verdict(calibrations: Sequence[Calibration]) -> dict[str, Any] | None:
    """Return the largest deviations of all emulated nodes; None if none was calibrated.

    `longer` are the least and the most by which large all-reduces in a ring exceed the time that
    their bytes take on the link.
    """
    if not calibrations:
        return None
    share = max(abs(one / made.cluster.share - 1) for made in calibrations for one in _shares(made))
    rate = max(
        (
            abs(one.bits_per_s / (made.cluster.link_bit_s * one.payload_share) - 1)
            for made in calibrations
            for launch in made.launches
            if (one := launch.transfer)
        ),
        default=None,
    )
    told: dict[str, Any] = {
        "met": share <= SHARE_WITHIN and (rate or 0.0) <= RATE_WITHIN,
        "share": f"{100 * share:.2g}\u00a0%",
        "rate": None if rate is None else f"{100 * rate:.2g}\u00a0%",
        "large": f"{LARGE_BYTES / 1e6:g} MB",
        "longer": [],  # one node, or a slow link, has no large all-reduces
    }
    if longer := [times - 1 for one in calibrations for times in against_wire(one)]:
        told["longer"] = [write_percent(end) for end in (min(longer), max(longer))]
    return told


def against_wire(calibration: Calibration) -> list[float]:
    """Return the times of large all-reduces in a ring, as multiples of those of their bytes alone.

    The calibration is one of nodes with a limited link.
    """
    cluster = calibration.cluster  # a node's own time is wall time × its share
    byte_s = 8 / (cluster.link_bit_s * PAYLOAD_SHARE) * cluster.share
    large = [row for row in ring_times(calibration) if row["payload_bytes"] >= LARGE_BYTES]
    return [row["seconds"] / (row["sent_bytes"] * byte_s) for row in large]


def _shares(calibration: Calibration) -> list[float]:
    """Return the share of a core that each busy worker got."""
    return [worker.share for launch in calibration.launches for worker in launch.busy]


def _measured(calibration: Calibration) -> dict[str, Any]:
    """Return the row of a calibration: shares of a core, and medians of a TCP stream."""
    shares = _shares(calibration)
    streams = [
        (one.bits_per_s, one.round_trip_s)
        for launch in calibration.launches
        if (one := launch.transfer)
    ]
    columns = ["achieved_bit_s", "round_trip_s"]
    return {
        "cluster": calibration.cluster.label,
        "machine": calibration.provenance.cpu,
        "launches": len(calibration.launches),
        "lowest": min(shares),
        "highest": max(shares),
        **pd.DataFrame(streams, columns=columns, dtype=float).median(),
        "restless": sum(bool(one.conditions.outside) for one in calibration.launches),
        "kind": calibration.kind,
        "file": Markup('<a href="{}" download>JSON</a>').format(calibration_file(calibration)),
    }
