"""The figure that sets one node count side by side under several links, nodes and inputs."""

import altair as alt
import pandas as pd

from nodewise.charts.figure import Figure, inline, kinds_of
from nodewise.charts.stacks import PALE, stacked
from nodewise.quantities import write_number
from nodewise.views import LAUNCHES

_ROW = ["setting", "batch_per_worker"]


def settings(rows: pd.DataFrame, of: dict[str, str]) -> Figure:
    """Draw the parts of a step, stacked, by setting and batch (`views.settings`)."""
    names = ["kind", *_ROW, "nodes", "part", "seconds"]
    data = rows[[*names, *LAUNCHES]].reset_index(drop=True)
    total = data.groupby(_ROW)["seconds"].sum().rename("step").reset_index()
    order = total.groupby("setting")["step"].max().sort_values(ascending=False).index.tolist()
    y = alt.Y("setting:N", title=None, sort=order).axis(
        labelExpr="split(datum.label, ', ')",
        labelFontSize=12,
        labelLineHeight=13,
        labelOffset=-8,  # of two or three lines: the first would stand where the middle belongs
        labelLimit=150,
        labelPadding=6,
        ticks=False,
    )
    offset = alt.YOffset("batch_per_worker:O").scale(paddingInner=0.15)
    bars = stacked(data, [*names, "repeats", "flags"], y=y, yOffset=offset)
    batches = (
        alt.Chart(inline(total))
        .mark_text(align="left", dx=4, fontSize=12)
        .encode(y=y, yOffset=offset, x=alt.X("step:Q"), text=alt.Text("batch_per_worker:O"))
    )
    words = "; ".join(
        f"{setting}, batch {batch}: {write_number(float(step), 's')}"
        for setting, batch, step in total.to_numpy()
    )
    nodes = int(data["nodes"].iloc[0])
    return Figure(
        figure="settings",
        of=of,
        layers=[bars, batches],
        data=data,
        title=f"One step on {nodes} nodes under several settings",
        kinds=kinds_of(data),
        alt=f"Time of a step on {nodes} nodes, its parts together. {words}.",
        caption=(
            "Medians over steps and launches of steps whose parts are timed apart, and of the "
            "wait for examples (input). A setting is the share of a core and the link of each node "
            "on this machine, and how it is fed; times are the nodes' own. The number beside a bar "
            f"is the batch per worker. {PALE}"
        ),
    )
