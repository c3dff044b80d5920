"""The figure of published numbers of studies beside ours."""

import pandas as pd

from nodewise.report.context import ReportContext
from nodewise.report.figure import Axis
from nodewise.report.figures import figure
from nodewise.report.scoreboard import scoreboard as printed_and_ours
from nodewise.report.scoreboard import summary
from nodewise.results.queries import LAUNCHES

_OF_ALL = ["median", "points", "printed"]  # of `summary`


@figure(
    "scoreboard",
    each=["study"],
    plots="Ours ÷ published, a point for each published number",
    mark="point",
    x=Axis("ratio", "Ours ÷ published", "log", unit="×"),
    y=Axis("row", "", "names"),
    colour="order",
    guide="one",
    title=[
        "Our numbers are {ratio_first} to {ratio} the published ones "
        "({points_of_all} of {printed_of_all} points, median {median_of_all})",
        "Ours is {ratio} what was published",
    ],
    rank=["ratio"],
    units={"median_of_all": "×", "points_of_all": "", "printed_of_all": ""},
    caption="Dashed: as published.",
    reading=(
        "All points are shown, also those that are no evidence. A time is in the published order "
        "if it compares with each other one of its model and batch as the published one does."
    ),
)
def scoreboard(study: ReportContext) -> pd.DataFrame:
    """Return our numbers divided by the published ones."""
    rows = printed_and_ours(study)
    of_all = pd.DataFrame({name: summary(of) for name, of in rows.groupby("study")}).T
    rows = rows.join(of_all.reindex(columns=_OF_ALL).add_suffix("_of_all"), "study")
    several = rows.groupby(["study", "row"])["strategy"].transform("nunique") > 1
    titles = rows["strategy"].map(study.strategy_title).astype("str")
    rows["row"] = rows["row"].mask(several, rows["row"].astype("str") + ", " + titles)
    shown = ["study", "row", "strategy", "nodes", "quantity", "printed", "ours", "ratio"]
    shown += ["kind", "order", *LAUNCHES, *(f"{column}_of_all" for column in _OF_ALL)]
    return rows.dropna(subset="ratio").reindex(columns=shown)
