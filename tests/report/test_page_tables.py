"""Tables on pages format values for readers and show every number with its kind."""

import pandas as pd
import pytest

from nodewise.report.html import number
from nodewise.report.tables import Column, table
from rendering import Texts


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


def test_missing_numbers_are_dashes_and_intervals_stand_below():
    rows = pd.DataFrame({"t": [None, 0.5], "low": [None, 0.4], "high": [None, 0.6]})
    column = Column("t", "Time", "s", "measured", low="low", high="high")
    (empty,), (full,) = table(rows, [column]).rows
    assert empty == "–"
    assert Texts(full).plain == "500 ms400 ms to 600 ms"
