"""Points that do not count as evidence change no sentence of any page."""

import re
from pathlib import Path

import pandas as pd
import pytest

import make_records as make
from nodewise.report import evidence
from nodewise.results import published
from nodewise.results.table_files import read_tables
from nodewise.results.tables import CURVE_KEY
from rendering import render

# Elements that show numbers without drawing conclusions: tables, facts, figures and their
# descriptions, scripts.
_SHOWN = re.compile(
    r"<(table|figure|dl|script|ol)\b.*?</\1>|^\| .*$|^.*class=\"nw-number.*$"
    r"|<details class=\"nw-data\" data-search-exclude>.*?</details>",
    re.DOTALL | re.MULTILINE,
)
_COUNTED_LEAD = re.compile(r"<p class=\"nw-lead\"[^\n]*#evidence\">count as evidence[^\n]*")
_VALUES = ("_s", "_per_s", "speedup", "efficiency", "accuracy", "_j")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a study in which some points do not count: launched only once, or with a caution."""
    folder = tmp_path_factory.mktemp("evidence")
    grid = make.grid(batches=(64, 512), repeats=3)
    ways = [
        make.record(make.cell(study=study, experiment=study, strategy=name, n=nodes, repeat=repeat))
        for study, launches in (("survey", 3), ("asu", 1))
        for name, nodes in (("single", 1), ("custom_loop", 2), ("mpi", 2), ("async_sgd", 2))
        for repeat in range(launches)
    ]
    make.write_study(folder, [*grid, *ways], make.published(), published.runs())
    (folder / "charts").mkdir()
    return folder


def sentences(folder, name):
    """Return the lines of each page outside of tables and figures."""
    docs = folder / name
    render(folder, docs)
    pages = docs.rglob("*.md")
    texts = {page.relative_to(docs): _SHOWN.sub("", page.read_text()) for page in pages}
    # A study's lead is about all points: it says how many of them do not count.
    return {page: _COUNTED_LEAD.sub("", text).split("\n") for page, text in texts.items()}


@pytest.mark.slow
def test_values_of_points_that_do_not_count_change_no_sentence(folder):
    before = sentences(folder, "before")
    tables = read_tables(folder / "tables")
    rows = evidence.check_times(tables["curves"], tables)
    lacking = rows.loc[rows["lacks"] != "", CURVE_KEY]  # what counts in no comparison of times
    assert len(lacking) > 0
    for name in ("curves", "cells"):
        path = folder / "tables" / f"{name}.parquet"
        rows = pd.read_parquet(path)
        known = rows.merge(lacking.assign(lacking=True), "left", CURVE_KEY)["lacking"].eq(True)
        columns = [column for column in rows if column.endswith(_VALUES)]
        rows.loc[known.to_numpy(), columns] /= 7
        rows.to_parquet(path)
    after = sentences(folder, "after")
    changed = {page: set(after[page]) ^ set(before[page]) for page in before}
    assert {page: lines for page, lines in changed.items() if lines} == {}
    assert any("examples per second than one" in line for line in before[Path("findings.md")])
