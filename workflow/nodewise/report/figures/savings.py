"""Draw the training time that more nodes save, by the formulas and as a study foresaw it."""

import altair as alt
import pandas as pd

from nodewise.core.units import write_number
from nodewise.predict import fit_queries
from nodewise.report import theme
from nodewise.report.figure import Figure, inline
from nodewise.report.figures import _formula_findings, figure
from nodewise.report.figures._encodings import dashed_by_role, legend_columns, nodes_axis, tooltip
from nodewise.results import published
from nodewise.results.published import PUBLISHED_STRATEGY

_TITLE = "Training time saved by more nodes, mean over the models"
_FORESEEN = "foreseen by the study"


@figure(
    "saved",
    tables="savings",
    rows=lambda tables: fit_queries.mean_savings(tables["savings"]),
    axes=["study"],
    plots="Training time saved by more nodes, by the formulas",
    reading=(
        "The mean over the models, each at the batch at which it saved most. Dotted is what nodes "
        "would save without communication. The line is the formulas, dashed where they predict."
    ),
    order=91,
)
def savings(rows: pd.DataFrame) -> Figure:
    """Draw the share of the training time that more nodes save, and what a study foresaw.

    The rows are one study of `fit_queries.mean_savings`.
    """
    law = rows.assign(role=rows["kind"])
    seen = rows.dropna(subset="observed").assign(role="observed", saved=rows["observed"])
    claims = published.read("ntua/foreseen")  # `nodes` and the `time_saved` that the study foresaw
    foreseen = claims.dropna(subset="time_saved").rename(columns={"time_saved": "saved"})
    points = pd.concat([seen, foreseen.assign(role=_FORESEEN)])[["role", "nodes", "saved"]]
    data = pd.concat([law, points], ignore_index=True)
    data = data[["role", "nodes", "saved", "low", "high"]].assign(cell_id="")
    return Figure(
        finding=_formula_findings.describe_savings(data, _FORESEEN),
        layers=_layers(law, points),
        data=data,
        title=_TITLE,
        kinds=["published", "fitted", "predicted"],
        alt=f"{_TITLE}. {_in_words(data)}",
        caption="Dotted: without communication. Shaded: 90 % interval of the mean.",
    )


def _layers(law: pd.DataFrame, points: pd.DataFrame) -> list[alt.Chart]:
    """Return the savings without communication, the formula with its interval, and the points."""
    y = alt.Y("saved:Q", title="Share of the time on one node").axis(format=".0%")
    last = law[law["role"] == "fitted"].sort_values("nodes").tail(1)
    # the predicted part begins where the fitted part ends
    lines = pd.concat([law, last.assign(role="predicted")]).sort_values("nodes", kind="stable")
    lines = lines[["role", "nodes", "saved", "low", "high"]]
    ideal = pd.DataFrame({"nodes": law["nodes"], "saved": 1 - 1 / law["nodes"]})
    kinds = ["observed", _FORESEEN]
    shape = alt.Shape("role:N", title=None).scale(domain=kinds, range=["diamond", "circle"])
    shape = shape.legend(columns=legend_columns(1, 2, 2))
    names = ["role", "nodes", "saved"]
    own, shade = theme.strategy_shades(PUBLISHED_STRATEGY, 2)
    at = {"x": nodes_axis(law["nodes"])}
    return [
        alt.Chart(inline(ideal))
        .mark_line(strokeDash=[2, 3], strokeWidth=1.2, color=theme.NEUTRAL)
        .encode(y=y, **at),
        alt.Chart(inline(lines))
        .mark_area(opacity=0.14, color=own)
        .encode(y=alt.Y("low:Q"), y2=alt.Y2("high"), detail=alt.Detail("role:N"), **at),
        alt.Chart(inline(lines))
        .mark_line(strokeWidth=1.8, color=own)
        .encode(
            y=y,
            strokeDash=dashed_by_role(),
            tooltip=tooltip(lines, [*names, "low", "high"]),
            **at,
        ),
        alt.Chart(inline(points))
        .mark_point(size=80, strokeWidth=2, opacity=1, color=shade)
        .encode(y=y, shape=shape, tooltip=tooltip(points, names), **at),
    ]


def _in_words(data: pd.DataFrame) -> str:
    sentences = []
    for role, rows in data.groupby("role", sort=False):
        values = ", ".join(
            f"{write_number(saved, 'share')} on {nodes}"
            for nodes, saved in zip(rows["nodes"], rows["saved"], strict=True)
        )
        sentences.append(f"{str(role).capitalize()}: {values} nodes.")
    return " ".join(sentences)
