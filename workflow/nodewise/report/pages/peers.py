"""Make the page that compares us with Horovod and PyTorch, from the results of `bench/peers`."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
from pydantic import TypeAdapter

from nodewise.core.cell import Cluster, ClusterSettings
from nodewise.core.intervals import INTERVAL
from nodewise.core.units import kind_label, write_number
from nodewise.report.context import ReportContext
from nodewise.report.html import number
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import MODEL, NODES, Column, table

FILE = Path("data/bench/peers.json")  # its medians are beside it
PATH = "peers.html"
PEERS = ("horovod", "ddp")
LEVELS = {"added": 1.0, "of_longer": 1.2, "all_reduce": 1.08}
"""Targets, as upper limits: of what is added to a step against a peer, and of two other values."""
NAMES = {"horovod": "Horovod", "ddp": "PyTorch DistributedDataParallel"}

_NOTHING = dict.fromkeys(("median", "low", "high"), float("nan"))

_AT = ["kind", "model", "nodes", "batch", "way"]
_PLACE = [MODEL, NODES]
_KIND = Column("kind", "Kind")

_FIT_NAMES = {
    "fit": "Keras fit",
    "fit, no XLA": "Keras fit without XLA",
    "fit, memory kept": "Keras fit, memory kept",
    "custom_loop, bare step": "our loop without train_step",
}


def _ends(name: str, title: str, unit: str) -> Column:
    """Return the column of a median with its interval, as `_ends_of` writes it into a row."""
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
    found = json.loads(file.read_text(encoding="utf-8"))
    cluster: ClusterSettings = TypeAdapter(Cluster).validate_python(found["cluster"])
    rows = _rows(study, pd.read_csv(file.with_suffix(".csv")).fillna({"peer": ""}))
    provenance = found["provenance"]
    added = [row for row in rows if row["what"] == "added"]
    steps = [row for row in rows if row["what"] == "step"]
    fits = [row for row in rows if row["what"] == "rate"]
    context = {
        "file": file.as_posix(),
        "added": table(added, _ADDED) if added else None,
        "steps": table(steps, _STEPS),
        "all_reduces": table([row for row in rows if row["what"] == "all_reduce"], _ALL_REDUCES),
        "fits": table(fits, _FITS) if fits else None,
        "interval": f"{100 * INTERVAL:g}\u00a0%",
        "levels": {name: write_number(level, "×") for name, level in LEVELS.items()},
        "off": number(
            max((work["off"] for work in found["same_work"]), default=None), "share", "measured"
        ),
        "cluster": cluster.label,
        "batch": found["batch"],
        "restless": sum(bool(run["outside"]) for run in found["runs"]),
        "launches": len(found["runs"]),
        "facts": [
            ("Measured", found["started_at"][:10]),
            ("Processor", provenance["cpu"]),
            ("Commit", (provenance["commit"] or "unknown")[:12]),
            *provenance["versions"].items(),
        ],
    }
    yield Page(PATH, "peers.md.j2", "Against Horovod and PyTorch", context)


def _rows(study: ReportContext, found: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of all tables: a value of a strategy with its ratios to the peers.

    The table is that of `bench/peers/medians.py`. Rows are sorted by payload, model and nodes, the
    least value first.
    """
    at = [*_AT, "what"]
    ratios = dict(iter(found[found["peer"] != ""].groupby(at)))
    longer = found[found["what"] == "of_longer"].set_index(_AT)
    values = found[(found["peer"] == "") | (found["what"] == "rate")]
    rows = []
    for one in values.sort_values(["payload_bytes", "model", "nodes", "median"]).to_dict("records"):
        key = tuple(one[name] for name in at)
        name = "ratio" if one["what"] in ("all_reduce", "rate") else one["what"]
        row: dict[str, Any] = {str(name): value for name, value in one.items()}
        for missing in (*PEERS, "of_longer"):
            row |= _ends_of(missing, _NOTHING)
        row |= _ends_of(name, one) | {"kind": kind_label(one["kind"])}
        row |= {"model": study.model_title(one["model"]), "payload": one["payload_bytes"]}
        if one["what"] == "rate":
            rows.append(row | {"way": _FIT_NAMES.get(one["peer"], one["peer"])})
            continue
        row["way"] = NAMES.get(one["way"]) or study.strategy_title(one["way"])
        against = ratios[key].to_dict("records") if key in ratios else []
        for ratio in against:
            row |= _ends_of(ratio["peer"], ratio)
        if one["what"] == "added":
            row["reached"] = _reached(against, LEVELS["added"])
            if key[:-1] in longer.index:
                row |= _ends_of("of_longer", longer.loc[key[:-1]].to_dict())
        elif one["what"] == "all_reduce":
            row["reached"] = _reached([one], LEVELS["all_reduce"])
        rows.append(row)
    return rows


def _ends_of(name: str, one: dict[Any, Any]) -> dict[str, float]:
    """Return the median and the ends of its interval, under the names that `_ends` uses."""
    return {name: one["median"], f"{name}_low": one["low"], f"{name}_high": one["high"]}


def _reached(values: list[dict[Any, Any]], level: float) -> str:
    """Say whether all values are at most `level`; "–" if there are none.

    It is uncertain if the interval of a value that decides includes `level`.
    """
    words = [
        ("yes" if one["median"] <= level else "no")
        + (", uncertain" if one["low"] <= level <= one["high"] else "")
        for one in values
    ]
    return min(words, key=["no", "no, uncertain", "yes, uncertain", "yes"].index, default="–")
