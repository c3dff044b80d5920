"""Make the horizontal axis of figures that plot node counts within each batch size."""

import altair as alt
import pandas as pd

BAR_GAP = 0.12


def batch_axis(data: pd.DataFrame) -> alt.X:
    """Return the axis of batch sizes, with room above their labels for `node_numbers`."""
    batches = sorted(map(int, data["batch_per_worker"].unique()))
    return (
        alt.X("batch_per_worker:O", title="Nodes (batch per worker below)", sort=batches)
        .axis(labelAngle=0, labelPadding=19, ticks=False, labelFontSize=12, labelFontWeight=600)
        .scale(paddingInner=0.25, paddingOuter=0.12)
    )


def node_offset(data: pd.DataFrame, gap: float | None = None) -> alt.XOffset:
    """Return the offset of a node count within its batch; `gap` is the space between bars."""
    inner = alt.Undefined if gap is None else gap
    nodes = sorted(map(int, data["nodes"].unique()))
    return alt.XOffset("nodes:O", sort=nodes).scale(paddingInner=inner)


def node_numbers(data: pd.DataFrame, gap: float | None = None) -> alt.Chart:
    """Return the node counts as a second row of axis labels, above those of the batches.

    Without room for all, only the first and the last node count of each batch are shown.
    """
    points = data[["batch_per_worker", "nodes"]].drop_duplicates()
    ends = points.groupby("batch_per_worker")["nodes"].transform
    end = points["nodes"].eq(ends("min")) | points["nodes"].eq(ends("max"))
    room = 6 + 7 * len(str(points["nodes"].max()))  # pixels for one number
    room *= points["batch_per_worker"].nunique() * points["nodes"].nunique()
    text = alt.Chart(points.assign(end=end)).mark_text(
        baseline="top",
        dy=5,
        fontSize=12,
        opacity=alt.ExprRef(f"datum.end || width > {room} ? 1 : 0"),
    )
    numbers: alt.Chart = text.encode(
        x=batch_axis(data),
        xOffset=node_offset(data, gap),
        y=alt.value("height"),
        text=alt.Text("nodes:O"),
    )
    return numbers
