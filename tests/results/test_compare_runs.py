"""Changes between runs: noise is not reported as a change, and changes are not missed."""

import html
import re

import numpy as np
import pandas as pd
import pytest
import yaml

import commands
import make_records as make
import rendering
from mistakes import user_error
from nodewise.results import compare_runs
from nodewise.results.columns import COLUMNS
from nodewise.results.table_files import typed, write_csv

CELLS = COLUMNS["cells"]


def cells(times, **changes):
    """Return the table `cells` of one point with a launch for each of `times` (seconds)."""
    nothing = {"str": "", "int64": 1, "bool": False, "float64": np.nan, "Int64": pd.NA}
    empty = {name: nothing.get(dtype, pd.Timestamp(0, tz="UTC")) for name, dtype in CELLS.items()}
    about = {"status": "ok", "kind": "measured", "data_origin": "official"} | changes
    rows = [empty | about | {"step_time_s": time, "repeat": at} for at, time in enumerate(times)]
    return typed(rows, CELLS)


def both(*points):
    return pd.concat(points, ignore_index=True)


@pytest.mark.parametrize(
    ("old", "new", "verdicts"),
    [
        ({"a": [1.0, 1.02, 0.98]}, {"a": [0.5, 0.51, 0.49]}, {"a": compare_runs.FASTER}),
        ({"a": [0.5, 0.51]}, {"a": [1.0, 1.02]}, {"a": compare_runs.SLOWER}),
        ({"a": [1.0, 1.3, 0.8]}, {"a": [1.1, 1.4, 0.9]}, {"a": compare_runs.NO_CHANGE}),
        # A single launch is compared by the scatter of the others.
        (
            {"a": [1.0, 1.01, 0.99], "b": [1.0]},
            {"a": [1.0, 1.01, 0.99], "b": [2.0]},
            {"a": compare_runs.NO_CHANGE, "b": compare_runs.SLOWER},
        ),
        ({"a": [1.0]}, {"a": [2.0]}, {"a": compare_runs.UNKNOWN}),
        ({"a": [1.0]}, {"b": [1.0]}, {"a": compare_runs.ONLY_OLD, "b": compare_runs.ONLY_NEW}),
    ],
)
def test_only_a_change_beyond_the_scatter_of_launches_is_reported(old, new, verdicts):
    runs = [both(*(cells(times, model=name) for name, times in run.items())) for run in (old, new)]
    changes = compare_runs.compare(*runs).set_index("model")
    assert changes["verdict"].to_dict() == verdicts
    moved = changes[changes["verdict"].isin([compare_runs.FASTER, compare_runs.SLOWER])]
    assert ((moved["low"] < moved["ratio"]) & (moved["ratio"] < moved["high"])).all()


@pytest.mark.slow
def test_few_of_many_unchanged_points_are_called_changed():
    rng = np.random.default_rng(7)
    runs = [
        both(*(cells(rng.lognormal(0, 0.1, 3), nodes=nodes) for nodes in range(1, 201)))
        for _ in range(2)
    ]
    verdicts = compare_runs.compare(*runs)["verdict"]
    assert (verdicts != compare_runs.NO_CHANGE).sum() <= 8  # Two are expected.


def test_what_is_written_reads_back_and_other_files_are_one_line(tmp_path):
    path = tmp_path / "changes.csv"
    changes = compare_runs.compare(cells([1.0, 1.1], model="a"), cells([2.0], model="b"))
    write_csv(changes, path)
    pd.testing.assert_frame_equal(compare_runs.read_changes(path), changes)
    assert compare_runs.read_changes(tmp_path / "none.csv").empty
    path.write_text("a,b\n1,2\n")
    assert "changes.csv: a column is missing" in user_error(compare_runs.read_changes, path)
    assert "neither tables" in user_error(compare_runs.read_cells, tmp_path)


def test_the_command_compares_records_with_tables(tmp_path):
    records = [make.record(make.cell(repeat=repeat)) for repeat in (0, 1)]
    tables = make.write_study(tmp_path / "new", records)
    make.write(records, tmp_path / "old")
    out = tmp_path / "changes.csv"
    commands.run("compare", tmp_path / "old", tmp_path / "new/tables", "--out", out)
    read = compare_runs.read_changes(out)
    assert read["verdict"].tolist() == [compare_runs.NO_CHANGE]
    assert read["new_launches"].tolist() == [len(tables["cells"])]


def test_the_page_shows_what_moved_and_names_the_folders_of_both_runs(tmp_path, monkeypatch):
    config = tmp_path / "study.yaml"
    runs = {"changes": {"old": "records/a-b", "new": "records/c_d"}}
    config.write_text(rendering.CONFIG.read_text() + yaml.safe_dump(runs))
    monkeypatch.setattr(rendering, "CONFIG", config)
    make.write_study(tmp_path, [])
    gone = cells([1.0], model="gone")
    old = both(cells([1.0, 1.01], model="<b>moved</b>"), cells([1.0, 1.01], model="still"), gone)
    new = both(cells([2.0, 2.01], model="<b>moved</b>"), cells([1.0, 1.01], model="still"))
    write_csv(compare_runs.compare(old, new), tmp_path / "changes.csv")
    page = (rendering.render(tmp_path) / "changes.md").read_text()
    assert "1 slower" in page and "1 no change beyond noise" in page and "2 points" in page
    assert "moved" in page and "<b>" not in page and "still<" not in page
    half = re.findall(r"lie between <data[^>]*>(\S+)</data> and <data[^>]*>(\S+)</data>", page)
    assert half == [("1.25×", "1.75×")]
    named = re.findall(r"<code>(.+?)</code>", page)
    assert [html.unescape(name) for name in named] == ["records/a-b", "records/c_d"]
