"""The figure of published numbers of studies beside ours."""

import pandas as pd

from nodewise.report.context import ReportContext
from nodewise.report.figure import Axis
from nodewise.report.figures import figure
from nodewise.report.scoreboard import scoreboard as printed_and_ours
from nodewise.report.scoreboard import summary
from nodewise.results.queries import LAUNCHES

_OF_ALL = ("median", "points", "printed")  # of `summary`


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
        "All points are shown, also those that do not count as evidence. A time is in the "
        "published order if it compares with each other time of its row as the published one does."
    ),
)
def scoreboard(study: ReportContext) -> pd.DataFrame:
    """Return our numbers divided by the published ones."""
    rows = printed_and_ours(study)
    for name, of in rows.groupby("study"):
        of_all = summary(of)
        for column in _OF_ALL:
            rows.loc[rows["study"] == name, f"{column}_of_all"] = of_all.get(column, float("nan"))
    shown = ["study", "row", "strategy", "nodes", "quantity", "printed", "ours", "ratio"]
    shown += ["kind", "order", *LAUNCHES, *(f"{column}_of_all" for column in _OF_ALL)]
    return rows.dropna(subset="ratio").reindex(columns=shown)
