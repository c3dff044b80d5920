"""Tables on pages format values for readers and show every number with its kind."""

import pandas as pd
import pytest

from nodewise.report.html import number
from nodewise.report.tables import BATCH, Column, data_table, table, with_kinds_in_heads
from rendering import Texts


def test_an_axis_is_a_whole_number_although_some_rows_have_none():
    rows = pd.DataFrame({"batch_per_worker": [32, None, 48]})
    shown = table(rows, [BATCH])
    assert [str(cell) for (cell,) in shown.rows] == ["32", "–", "48"]


def test_no_number_without_a_kind():
    with pytest.raises(ValueError, match="kind"):
        number(1.0, "s", "roughly")
    with pytest.raises(ValueError, match="kind"):
        Column("step_time_s", "Step time", "s")
    rows = pd.DataFrame({"step_time_s": [1.0], "label": ["measured"]})
    hidden = Column("step_time_s", "Step time", "s", kind_from="label")
    with pytest.raises(ValueError, match="shown beside"):
        table(rows, [hidden])
    shown = table(rows, [hidden, Column("label", "Kind")])
    assert "nw-kind" in shown.rows[0][1]


@pytest.mark.parametrize("other", ["measured", "emulated"])
def test_a_kind_that_all_rows_share_stands_in_the_head(other):
    rows = pd.DataFrame({"nodes": [1, 2], "t": [1.0, 2.0], "label": ["measured", other]})
    columns = [Column("nodes", "Nodes"), Column("t", "Time", "s", kind_from="label")]
    shown = table(rows, with_kinds_in_heads(rows, [*columns, Column("label", "Kind")]))
    shared = other == "measured"
    assert [Texts(head).plain for head in shown.heads] == (
        ["Nodes", "Time measured"] if shared else ["Nodes", "Time", "Kind"]
    )
    assert ("nw-kind" in shown.rows[0][-1]) == (not shared)


def test_missing_numbers_are_dashes_and_intervals_stand_below():
    rows = pd.DataFrame({"t": [None, 0.5], "low": [None, 0.4], "high": [None, 0.6]})
    column = Column("t", "Time", "s", "measured", low="low", high="high")
    (empty,), (full,) = table(rows, [column]).rows
    assert empty == "–"
    assert Texts(full).plain == "500 ms400 ms to 600 ms"


def test_long_texts_have_room_and_short_ones_take_none():
    short, long = "one word", "MultiWorkerMirroredStrategy, star"
    columns = [Column("a", "A"), Column("b", "B"), Column("c", "C", wide=True)]
    rows = [{"a": short, "b": long, "c": long}, {"a": None, "b": short, "c": short}]
    assert [*map(str, table(rows, columns).classes)] == ["", "nw-text", "nw-wide"]
    assert [*map(str, table(rows[1:], columns).classes)] == ["", "", "nw-wide"]
    assert [*map(str, table([{"a": "", "b": None, "c": None}], columns).classes)] == ["", "", ""]
    data = data_table(pd.DataFrame({"text": [long], "seconds": [0.1]}), {})
    assert [*map(str, data.classes)] == ["nw-text", "nw-right"]
    assert data_table(pd.DataFrame({"text": []}), {}).rows == []
