"""Tables on pages show values as readers write them."""

import pandas as pd

from nodewise.report.html import Column, table


def test_an_axis_is_a_whole_number_although_some_rows_have_none():
    rows = pd.DataFrame({"batch_per_worker": [32, None, 48]})
    shown = table(rows, [Column("batch_per_worker", "Batch per worker")])
    assert [str(cell) for (cell,) in shown.rows] == ["32", "–", "48"]
