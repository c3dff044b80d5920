"""The figure of a fitted curve."""

import pandas as pd

from nodewise.core.units import kind_label
from nodewise.predict.fit_curves import CURVE, LINE
from nodewise.report.context import ReportContext
from nodewise.report.figure import Axis
from nodewise.report.figures import _rows, figure
from nodewise.results.queries import LAUNCHES, POINT, scaling_lines


@figure(
    "fit",
    each=CURVE,
    plots="Speed-up: measured, fitted and predicted",
    x=Axis("nodes", "Nodes", "log"),
    y=Axis("speedup", "Speed-up against its own one node", "log", unit="×"),
    interval=("low", "high"),
    colour="batch_per_worker",
    guide="diagonal",
    title=[
        "{nodes} nodes are predicted to be {speedup} as fast as one at batch {batch_per_worker} "
        "({low} to {high})",
    ],
    told="role == 'predicted' and low == low and ahead <= 2",
    rank=["nodes", "batch_per_worker"],
    caption=(
        "Line: the fitted formula, dashed where it predicts. Points: measured, against one node by "
        "the formula. Dotted: ideal."
    ),
    reading=(
        "Throughput against what the formula gives for one node, at the same batch per worker. The "
        "line is the formula, dashed where it predicts, shaded its interval. Points were measured."
    ),
)
def fit(study: ReportContext) -> pd.DataFrame:
    """Return the speed-ups of the formula with their intervals, and of the measured points.

    All are relative to one node by the formula.
    """
    curves = study.tables["curves"]
    lines = _rows.without_compared(curves, study.fit_tables["predictions"])
    one = lines[lines["nodes"] == 1].drop_duplicates(LINE)
    lines = lines.merge(one[[*LINE, "fitted_s"]], "inner", LINE, suffixes=("", "_one"))
    points = _with_launches(lines[lines["observed_s"].notna()], curves).assign(role="observed")
    roles = lines["beyond"].map({True: "predicted", False: "fitted"})
    lines = lines.assign(role=roles, flags="", cell_id="")
    rows = pd.concat([lines, points], ignore_index=True).astype({"repeats": "Int64"})
    optima = study.fit_tables["optima"].query("job != 'run'").drop_duplicates([*LINE, "nodes"])
    ends = optima[[*LINE, "nodes", "speedup_low", "speedup_high"]]
    rows = rows.merge(ends.astype({"batch_per_worker": "int64"}), "left", [*LINE, "nodes"])
    observed = rows["role"] == "observed"
    seconds = rows["observed_s"].where(observed, rows["fitted_s"])
    kinds = [kind_label(*of) for of in rows[["source", "data_origin"]].to_numpy()]
    measured = rows[observed].groupby("curve")["nodes"].max()
    rows = rows.assign(
        kind=rows["role"].where(~observed, kinds),
        seconds=seconds,
        speedup=rows["nodes"] * rows["fitted_s_one"] / seconds,
        low=rows["speedup_low"].mask(observed),
        high=rows["speedup_high"].mask(observed),
        ahead=rows["nodes"] / rows["curve"].map(measured),
    )
    last = rows[rows["role"] == "fitted"].sort_values("nodes").drop_duplicates(LINE, keep="last")
    ahead = rows.loc[rows["role"] == "predicted", LINE].drop_duplicates()
    joint = last.merge(ahead, "inner", LINE).assign(role="predicted")  # it begins there
    rows = pd.concat([rows, joint], ignore_index=True).sort_values([*LINE, "nodes"], kind="stable")
    shown = ["kind", "role", *POINT, "ahead", "speedup", "low", "high", "seconds", *LAUNCHES]
    return rows[[*CURVE, *shown]]


def _with_launches(points: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return fitted points with the launches, cautions and cell of the same points of a study."""
    lines = pd.concat([scaling_lines(curves), curves.assign(line=curves["strategy"])])
    lines = lines.drop(columns="strategy").rename(columns={"line": "strategy", "kind": "source"})
    at = ["source", "study", "experiment", "model", "strategy", *POINT]
    rows = points.merge(lines.drop_duplicates(at)[[*at, *LAUNCHES]], "left", at)
    return rows.fillna({"flags": "", "cell_id": ""})
