"""Make the page that compares us with Horovod and PyTorch, from the results of `bench/peers`."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from nodewise.core.intervals import INTERVAL
from nodewise.core.schema import read_json
from nodewise.core.units import kind_label, write_number
from nodewise.report.context import ReportContext
from nodewise.report.html import number
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import MODEL, NODES, Column, table
from nodewise.results.peers import (
    FILE,
    PEERS,
    Added,
    Interval,
    Ratio,
    Results,
    StepTime,
)

PATH = "peers.html"
NAMES = {"horovod": "Horovod", "ddp": "PyTorch DistributedDataParallel"}

_PLACE = [MODEL, NODES]
_KIND = Column("kind", "Kind")
_NOTHING = Interval(median=float("nan"), low=None, high=None, rounds=0)

_FIT_NAMES = {
    "fit": "Keras fit",
    "fit, no XLA": "Keras fit without XLA",
    "fit, memory kept": "Keras fit, memory kept",
    "custom_loop, bare step": "our loop without train_step",
}


def _ends(name: str, title: str, unit: str) -> Column:
    """Return the column of an `Interval` that `_ends_of` has written into a row."""
    return Column(name, title, unit, kind_from="kind", low=f"{name}_low", high=f"{name}_high")


_ADDED = [
    *_PLACE,
    Column("way", "Strategy"),
    _ends("added", "Added to a step", "s"),
    *(_ends(peer, f"÷ {NAMES[peer]}", "×") for peer in PEERS),
    Column("reached", "Target met"),
    _ends("of_longer", "Step ÷ longer of computing and sending", "×"),
    _KIND,
]
_STEPS = [
    *_PLACE,
    Column("way", "Strategy"),
    _ends("step", "Wall time of a step", "s"),
    *(_ends(peer, f"÷ {NAMES[peer]}", "×") for peer in PEERS),
    _KIND,
]
_ALL_REDUCES = [
    Column("way", "Strategy"),
    NODES,
    Column("payload", "Payload", "B", kind_from="kind"),
    Column("wire_s", "On the wire", "s", "predicted"),
    _ends("ratio", "All-reduce ÷ wire", "×"),
    Column("reached", "Target met"),
    _KIND,
]
_FITS = [
    MODEL,
    Column("way", "Against"),
    _ends("ratio", "Our loop's examples/s ÷ theirs", "×"),
    _KIND,
]


@page("peers")
def pages(study: ReportContext, file: Path = FILE) -> Iterator[Page]:
    """Yield the page, if there is a comparison to show.

    Args:
        study: the study.
        file: the results of the comparison.
    """
    if not file.is_file():
        return
    found = read_json(Results, file)
    context = {
        "file": file.as_posix(),
        "added": table(_added(study, found), _ADDED) if found.added else None,
        "steps": table(_steps(study, found), _STEPS),
        "all_reduces": table(_all_reduces(study, found), _ALL_REDUCES),
        "fits": table(_fits(study, found), _FITS) if found.fits else None,
        "interval": f"{100 * INTERVAL:g}\u00a0%",
        "levels": {name: write_number(level, "×") for name, level in found.levels.items()},
        "off": number(
            max((work.off for work in found.same_work), default=None), "share", "measured"
        ),
        "cluster": found.cluster.label,
        "batch": found.batch,
        "restless": sum(bool(run.outside) for run in found.runs),
        "launches": len(found.runs),
        "facts": [
            ("Measured", f"{found.started_at:%Y-%m-%d}"),
            ("Processor", found.provenance.cpu),
            ("Commit", (found.provenance.commit or "unknown")[:12]),
            *found.provenance.versions.items(),
        ],
    }
    yield Page(PATH, "peers.md.j2", "Against Horovod and PyTorch", context)


def _way(study: ReportContext, way: str) -> str:
    return NAMES.get(way) or study.strategy_title(way)


def _place(study: ReportContext, one: Added | StepTime) -> dict[str, Any]:
    return {
        "model": study.model_title(one.model),
        "nodes": one.nodes,
        "way": _way(study, one.way),
        "kind": kind_label(one.kind),
    }


def _ends_of(**intervals: Interval) -> dict[str, float | None]:
    """Return the median and the ends of each interval, under the names that `_ends` uses."""
    row: dict[str, float | None] = {}
    for name, one in intervals.items():
        row |= {name: one.median, f"{name}_low": one.low, f"{name}_high": one.high}
    return row


def _reached(ratio: Interval, level: float) -> str:
    """Say whether the median is at most `level`; "uncertain" if the interval includes `level`."""
    met = "yes" if ratio.median <= level else "no"
    if ratio.low is None or ratio.high is None:
        return met
    return f"{met}, uncertain" if ratio.low <= level <= ratio.high else met


def _reached_all(ratios: Iterable[Interval], level: float) -> str:
    """Say whether all known ratios are at most `level`; "–" if none is known."""
    words = [_reached(ratio, level) for ratio in ratios if ratio.rounds]
    worst = ["no", "no, uncertain", "yes, uncertain", "yes"]
    return min(words, key=worst.index, default="–")


def _against_peers(ratios: Sequence[Ratio], one: Added | StepTime) -> dict[str, Interval]:
    """Return the ratios to each peer for one model, nodes and strategy; `_NOTHING` if missing."""
    place = (one.model, one.nodes, one.way)
    known = {of.peer: of.ratio for of in ratios if (of.model, of.nodes, of.way) == place}
    return {peer: known.get(peer, _NOTHING) for peer in PEERS}


def _added(study: ReportContext, found: Results) -> list[dict[str, Any]]:
    """Return what the exchange of each strategy adds to a step, by model and nodes, least first."""
    rows = []
    for one in sorted(found.added, key=lambda one: (one.model, one.nodes, one.added_s.median)):
        ratios = _against_peers(found.added_ratios, one)
        ends = _ends_of(added=one.added_s, of_longer=one.of_longer or _NOTHING, **ratios)
        reached = _reached_all(ratios.values(), found.levels["added"])
        rows.append(_place(study, one) | ends | {"reached": reached})
    return rows


def _steps(study: ReportContext, found: Results) -> list[dict[str, Any]]:
    """Return the step times of all strategies, by model and nodes, the fastest first."""
    places = list(dict.fromkeys((one.model, one.nodes) for one in found.step_times))
    return [
        _place(study, one) | _ends_of(step=one.step_s, **_against_peers(found.ratios, one))
        for one in sorted(
            found.step_times,
            key=lambda one: (places.index((one.model, one.nodes)), one.step_s.median),
        )
    ]


def _all_reduces(study: ReportContext, found: Results) -> list[dict[str, Any]]:
    level = found.levels["all_reduce"]
    return [
        {
            "way": _way(study, one.way),
            "nodes": one.nodes,
            "payload": one.payload_bytes,
            "wire_s": one.wire_s,
            "reached": _reached(one.ratio, level),
            "kind": kind_label(one.kind),
            **_ends_of(ratio=one.ratio),
        }
        for one in sorted(found.all_reduces, key=lambda one: (one.payload_bytes, one.nodes))
    ]


def _fits(study: ReportContext, found: Results) -> list[dict[str, Any]]:
    return [
        {
            "model": study.model_title(one.model),
            "way": _FIT_NAMES.get(name, name),
            **_ends_of(ratio=ratio),
            "kind": one.kind,
        }
        for one in found.fits
        for name, ratio in one.ratios.items()
    ]
