"""The figure of step times that formulas predicted for points that they were not fitted to."""

import pandas as pd

from nodewise.predict.judge import EACH
from nodewise.report.context import ReportContext
from nodewise.report.figure import Axis
from nodewise.report.figures import figure


@figure(
    "trials",
    each=["source"],
    plots="Step times predicted from the other numbers of nodes, and measured",
    mark="point",
    x=Axis("observed_s", "Measured step time (s)", "log", unit="s"),
    y=Axis("predicted_s", "Predicted step time (s)", "log", unit="s"),
    colour="interval",
    guide="diagonal",
    title=[
        "Half of {tests} predictions are within {median}; the worst was {predicted_s} instead of "
        "{observed_s}"
    ],
    rank=["error"],
    units={"median": "share"},
    caption="Dashed: predicted as measured. Predictions of 0 s are not drawn.",
    reading=(
        "Each number of nodes of a curve was left out in turn, and the formula was fitted to the "
        "others."
    ),
)
def trials(study: ReportContext) -> pd.DataFrame:
    """Return the predictions of the strategies' own formulas, each number of nodes left out."""
    rows = study.overhead["trials"]
    rows = rows[rows["own"] & (rows["scenario"] == EACH)]
    inside = rows["observed_s"].between(rows["low_s"], rows["high_s"])
    errors = rows.groupby("source")["error"]
    rows = rows.assign(
        kind="predicted",
        interval=inside.map({True: "inside its interval", False: "outside"}),
        tests=errors.transform("size"),
        median=errors.transform("median"),
    )
    values = ["predicted_s", "observed_s", "error", "interval"]
    about = ["model", "strategy", "batch_per_worker", "nodes", "tests", "median"]
    drawn = rows["predicted_s"] > 0  # the axis is logarithmic
    return rows.loc[drawn, ["source", "kind", *values, *about]]
