"""Against Horovod and PyTorch: the same work on the same nodes, as `bench/peers` found it."""

from collections.abc import Iterator, Mapping, Sequence
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
from nodewise.results.calibration import COLLECTIVES
from nodewise.results.importers.peers import (
    EXCHANGES_FILE,
    FILE,
    PEERS,
    Exchanges,
    Interval,
    Ratio,
    Results,
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
    """Return the column of an `Interval` that `_spread` has written."""
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
_EXCHANGES = [
    Column("way", "All-reduce"),
    NODES,
    Column("payload", "Payload", "B", kind_from="kind"),
    Column("wire_s", "On the wire", "s", "predicted"),
    _ends("ratio", "All-reduce ÷ wire", "×"),
    Column("sent", "Bytes sent ÷ ring's", "×", kind_from="kind"),
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
def pages(
    study: ReportContext, file: Path = FILE, exchanges: Path = EXCHANGES_FILE
) -> Iterator[Page]:
    """Yield the page, if there is a comparison to show; all-reduces by themselves if there are."""
    if not file.is_file():
        return
    found = read_json(Results, file)
    context = {
        "file": file.as_posix(),
        "added": table(_added(study, found), _ADDED) if found.added else None,
        "steps": table(_steps(study, found), _STEPS),
        "all_reduces": table(_all_reduces(study, found), _ALL_REDUCES),
        "exchanges": _exchanges(exchanges) if exchanges.is_file() else None,
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


def _spread(name: str, interval: Interval) -> dict[str, float | None]:
    return {name: interval.median, f"{name}_low": interval.low, f"{name}_high": interval.high}


def _reached(ratio: Interval, level: float) -> str:
    """Return whether the median is at most `level`; "uncertain" if the interval includes it."""
    met = "yes" if ratio.median <= level else "no"
    if ratio.low is None or ratio.high is None:
        return met
    return f"{met}, uncertain" if ratio.low <= level <= ratio.high else met


def _added(study: ReportContext, found: Results) -> list[dict[str, Any]]:
    """Return what the exchange of each way adds in each place, the least first."""
    against = _against(found.added_ratios)
    rows = []
    for one in sorted(found.added, key=lambda one: (one.model, one.nodes, one.added_s.median)):
        ratios = [against.get((one.model, one.nodes, one.way, peer), _NOTHING) for peer in PEERS]
        row = {
            "model": study.model_title(one.model),
            "nodes": one.nodes,
            "way": _way(study, one.way),
            **_spread("added", one.added_s),
            "reached": _reached_all(ratios, found.levels["added"]),
            **_spread("of_longer", one.of_longer or _NOTHING),
            "kind": kind_label(one.kind),
        }
        for peer, ratio in zip(PEERS, ratios, strict=True):
            row |= _spread(peer, ratio)
        rows.append(row)
    return rows


def _reached_all(ratios: Sequence[Interval], level: float) -> str:
    """Return whether all of them that are known reach the level; "–" if none is known."""
    words = [_reached(ratio, level) for ratio in ratios if ratio.rounds]
    worst = ["no", "no, uncertain", "yes, uncertain", "yes"]
    return min(words, key=worst.index, default="–")


def _steps(study: ReportContext, found: Results) -> list[dict[str, Any]]:
    """Return every way in every place, the fastest first."""
    against = _against(found.ratios)
    rows = []
    for place, steps in _places(found).items():
        for step in sorted(steps, key=lambda step: step.step_s.median):
            row = {
                "model": study.model_title(step.model),
                "nodes": step.nodes,
                "way": _way(study, step.way),
                **_spread("step", step.step_s),
                "kind": kind_label(step.kind),
            }
            for peer in PEERS:
                row |= _spread(peer, against.get((*place, step.way, peer), _NOTHING))
            rows.append(row)
    return rows


def _against(ratios: Sequence[Ratio]) -> dict[tuple[str, int, str, str], Interval]:
    return {(one.model, one.nodes, one.way, one.peer): one.ratio for one in ratios}


def _places(found: Results) -> Mapping[tuple[str, int], Sequence[Any]]:
    places: dict[tuple[str, int], list[Any]] = {}
    for step in found.step_times:
        places.setdefault((step.model, step.nodes), []).append(step)
    return places


def _all_reduces(study: ReportContext, found: Results) -> list[dict[str, Any]]:
    return [
        {
            "way": _way(study, one.way),
            "nodes": one.nodes,
            "payload": one.payload_bytes,
            "wire_s": one.wire_s,
            **_spread("ratio", one.ratio),
            "reached": _reached(one.ratio, found.levels["all_reduce"]),
            "kind": kind_label(one.kind),
        }
        for one in sorted(found.all_reduces, key=lambda one: (one.payload_bytes, one.nodes))
    ]


def _exchanges(file: Path) -> dict[str, Any]:
    found = read_json(Exchanges, file)
    rows = [
        {
            "way": COLLECTIVES[one.collective],
            "nodes": one.nodes,
            "payload": one.payload_bytes,
            "wire_s": one.wire_s,
            **_spread("ratio", one.ratio),
            "sent": one.sent,
            "reached": _reached(one.ratio, found.level),
            "kind": kind_label(found.kind),
        }
        for one in found.found
    ]
    return {
        "file": file.as_posix(),
        "url": f"tables/{file.name}",
        "table": table(rows, _EXCHANGES),
        "cluster": found.cluster.label,
        "rounds": found.found[0].ratio.rounds,
        "measured": f"{found.started_at:%Y-%m-%d}",
        "cpu": found.provenance.cpu,
        "commit": (found.provenance.commit or "unknown")[:12],
    }


def _fits(study: ReportContext, found: Results) -> list[dict[str, Any]]:
    return [
        {
            "model": study.model_title(one.model),
            "way": _FIT_NAMES.get(name, name),
            **_spread("ratio", ratio),
            "kind": one.kind,
        }
        for one in found.fits
        for name, ratio in one.ratios.items()
    ]
