"""Write sentences about comparisons, for the pages of studies."""

import pandas as pd
from markupsafe import Markup

from nodewise.report.context import ReportContext
from nodewise.report.html import between, text
from nodewise.results.columns import CURVE_KEY

_WIDE = 2.0  # ratio of the ends of an interval above which it is explained


def wide_intervals(study: ReportContext, rows: pd.DataFrame, up: str = "") -> list[Markup]:
    """Explain the widest interval of the points' speed-ups, if it is wide.

    Args:
        study: the study.
        rows: points with the interval of their speed-up.
        up: the relative address of the site's root, such as `../`.

    Returns:
        One sentence, or none if the ends of no interval are more than `_WIDE` times apart.
    """
    rated = rows[rows["speedup_low"].notna()]
    if rated.empty:
        return []
    wide = rated.assign(wide=rated["speedup_high"] / rated["speedup_low"]).sort_values("wide")
    widest = wide.iloc[-1]
    if widest["wide"] <= _WIDE:
        return []
    cells = study.tables["cells"]
    point = cells.loc[cells["cell_id"] == widest["cell_id_one"], CURVE_KEY]
    one = cells[cells["status"] == "ok"].merge(point, "inner", CURVE_KEY)["step_time_s"]
    sentence = Markup(
        "Ranges are 90\u00a0% intervals over launches. The widest, {}, is against a step on "
        "one node that took {} in {}. Short steps differ most between launches: see "
        '<a href="{}method.html">How this was measured</a>.'
    )
    return [
        sentence.format(
            between(widest["speedup_low"], widest["speedup_high"], "×", widest["label"]),
            between(one.min(), one.max(), "s", widest["label"]),
            *(text(f"{len(one)} launches"), up),
        )
    ]


def kind_of(rows: pd.DataFrame) -> str:
    """Return the kind of the median of `rows`: the kind that most of the rows have."""
    return str(rows["label"].mode().iloc[0])
