"""Draw the training time that more nodes save, model by model."""

import altair as alt
import pandas as pd

from nodewise.core.units import counted, write_number
from nodewise.models.registry import title_of
from nodewise.report import theme
from nodewise.report.figure import Figure, inline
from nodewise.report.figures import _findings, figure
from nodewise.report.figures._encodings import (
    PHONE,
    by_value,
    caution_key,
    hollow_if_flagged,
    kinds_of,
    shape_scale,
    tooltip,
)
from nodewise.report.figures._series import Series, colours_of
from nodewise.results import queries
from nodewise.results.published import PUBLISHED_STRATEGY
from nodewise.results.queries import LAUNCHES


@figure(
    "improvement",
    tables="curves cells published",
    rows=queries.improvements,
    axes=["study"],
    plots="Training time that more nodes save",
    reading=(
        "Each model at the batch at which the study saved most on its largest number of nodes. A "
        "mean is shown only for kinds that cover all models."
    ),
    order=90,
)
def improvement(rows: pd.DataFrame) -> Figure:
    """Draw the share of the training time that more nodes save (`queries.improvements`)."""
    # not named `model` and `batch_per_worker`: readers filter by these, and the mean has neither
    batch = rows["batch_per_worker"].astype("string").fillna("each its own")
    data = rows.assign(title=rows["model"].map(lambda name: title_of(name) or "Mean"), batch=batch)
    data = data[["kind", "title", "batch", "nodes", "saved", "experiment", *LAUNCHES]]
    title = "Training time that more nodes save"
    words = "; ".join(
        f"{model}, {counted(nodes, 'node')}: {write_number(saved, 'share')} {kind}"
        for kind, model, nodes, saved in data[["kind", "title", "nodes", "saved"]].to_numpy()
    )
    return Figure(
        finding=_findings.describe_improvements(rows),
        layers=_layers(data),
        data=data,
        title=title,
        kinds=kinds_of(data),
        alt=f"{title}. {words}.",
        caption=caution_key(data).strip(),
        axis="x",
    )


def _layers(data: pd.DataFrame) -> list[alt.Chart]:
    """Return a point for each kind, model and number of nodes, and lines that join the kinds."""
    at = [f"{model}, {nodes}" for model, nodes in data[["title", "nodes"]].to_numpy()]
    points = inline(data.assign(at=at))
    y = alt.Y("at:N", title="Model, nodes", sort=[*dict.fromkeys(at)]).axis(grid=True, ticks=False)
    x = alt.X("saved:Q", title="Share of the training time on one node").axis(format=".0%")
    legend = alt.Legend(
        direction="vertical",
        symbolOpacity=1,
        labelExpr=f"{PHONE} ? split(replace(datum.label, ' step', '|step'), '|') : datum.label",
    )
    kinds = kinds_of(data)
    colours = colours_of([Series(kind, PUBLISHED_STRATEGY, kind, kind) for kind in kinds])
    colour, fill = by_value("kind:N", None, kinds, colours, legend)
    shape = alt.Shape("kind:N", title=None, scale=shape_scale(kinds), legend=legend)
    marks = (
        alt.Chart(points)
        .mark_point(size=64, strokeWidth=2, opacity=1)
        .encode(
            x=x,
            y=y,
            color=colour,
            fill=fill,
            shape=shape,
            fillOpacity=hollow_if_flagged(),
            tooltip=tooltip(points, [str(name) for name in data.columns if name != "cell_id"]),
        )
    )
    apart = alt.Chart(points).mark_rule(strokeWidth=1.5, color=theme.NEUTRAL, opacity=0.6)
    return [apart.encode(x=alt.X("min(saved):Q"), x2=alt.X2("max(saved):Q"), y=y), marks]
