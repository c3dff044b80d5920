"""The figure of printed numbers of published studies beside ours."""

import pandas as pd

from nodewise.report.context import ReportContext
from nodewise.report.figure import Axis
from nodewise.report.figures import figure
from nodewise.report.scoreboard import scoreboard as printed_and_ours
from nodewise.report.scoreboard import summary
from nodewise.results.queries import LAUNCHES


@figure(
    "scoreboard",
    each=["study"],
    plots="Ours ÷ printed, a point for each printed number",
    mark="point",
    x=Axis("ratio", "Ours ÷ printed", "log", unit="×"),
    y=Axis("row", "", "names"),
    colour="order",
    guide="one",
    title=[
        "Our numbers are {low_of_all} to {high_of_all} the printed ones "
        "({points} of {printed_points} points, median {median})",
    ],
    rank=["ratio"],
    units=dict.fromkeys(("low_of_all", "high_of_all", "median"), "×"),
    caption="Dashed: as printed.",
    reading=(
        "All points are shown, also those that do not count as evidence. A point is in the printed "
        "order if our time stands to each other time of its row as the printed one does."
    ),
)
def scoreboard(study: ReportContext) -> pd.DataFrame:
    """Return our numbers divided by the printed ones."""
    rows = printed_and_ours(study)
    for name, of in rows.groupby("study"):
        told = summary(of)
        about = {"low_of_all": told["low"], "high_of_all": told["high"], "median": told["median"]}
        about |= {"points": told["points"], "printed_points": told["printed"]}
        rows.loc[rows["study"] == name, [*about]] = [*about.values()]
    rows = rows.dropna(subset="ratio")
    values = ["printed", "ours", "ratio", "low_of_all", "high_of_all", "median"]
    shown = [*values, "points", "printed_points", "kind", "order", *LAUNCHES]
    # a study without results has none of these columns
    return rows.reindex(columns=["study", "row", "strategy", "nodes", "quantity", *shown])
