"""Make the page that compares us with Horovod and PyTorch, from the results of `bench/peers`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from pydantic import TypeAdapter

from nodewise.core.cell import AnyCluster, ClusterSettings
from nodewise.core.units import write_number
from nodewise.report.context import ReportContext
from nodewise.report.figures.peers import FILE, read_medians
from nodewise.report.page import Page
from nodewise.report.pages import page
from nodewise.report.tables import Column, Table, table

_WAY, _PEER, _KIND = Column("way", "Strategy"), Column("peer", "Against"), Column("kind", "Kind")
_RANGE = [
    Column("count", "Comparisons"),
    Column("least", "Least", "×", kind_from="kind"),
    Column("typical", "Median", "×", kind_from="kind"),
    Column("most", "Most", "×", kind_from="kind"),
    Column("more", "Clearly more"),
    Column("less", "Clearly less"),
    _KIND,
]


@page("peers")
def pages(study: ReportContext, file: Path = FILE) -> Iterator[Page]:
    """Yield the page, if there is a `file` to show, as `bench/peers/medians.py` writes it."""
    if not file.is_file():
        return
    found = json.loads(file.read_text(encoding="utf-8"))
    cluster: ClusterSettings = TypeAdapter(AnyCluster).validate_python(found["cluster"])
    rows = read_medians(study, file)
    added = rows[(rows["what"] == "added") & (rows["peer"] != "")]
    context = {
        "file": file.as_posix(),
        "verdict": added["median"].agg(["count", "median", "min", "max"]),
        "each": added.groupby("peer")["median"].median().to_dict(),
        "kinds": added["kind"].unique().tolist(),
        "figures": study.pick("peers"),
        "added": _ranges(added, [_WAY, _PEER]),
        "all_reduces": _ranges(rows[rows["what"] == "all_reduce"], [_WAY]),
        "off": write_number(max((work["off"] for work in found["same_work"]), default=0), "share"),
        "cluster": cluster.label,
        "batch": found["batch"],
        "restless": sum(bool(run["outside"]) for run in found["runs"]),
        "launches": len(found["runs"]),
        "facts": [
            ("Measured", found["started_at"][:10]),
            ("Processor", found["provenance"]["cpu"]),
            ("Commit", (found["provenance"]["commit"] or "unknown")[:12]),
            *found["provenance"]["versions"].items(),
        ],
    }
    yield Page("peers.html", "peers.md.j2", "Against Horovod and PyTorch", context, figures=True)


def _ranges(rows: pd.DataFrame, names: list[Column]) -> Table:
    """Return the range of medians over models and numbers of nodes, with a row for each of `names`.

    It counts the comparisons whose whole interval is above, or below, one.
    """
    rows = rows.assign(more=rows["low"] > 1, less=rows["high"] < 1)
    found = rows.groupby([column.name for column in names], sort=False).agg(
        count=("median", "size"),
        least=("median", "min"),
        typical=("median", "median"),
        most=("median", "max"),
        more=("more", "sum"),
        less=("less", "sum"),
        kind=("kind", "first"),
    )
    ranked = found.reset_index().sort_values("typical", kind="stable")
    return table(ranked, [*names, *_RANGE])
