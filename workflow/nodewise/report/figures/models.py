"""Draw the figure that compares what models compute with what they communicate."""

import math
from collections.abc import Mapping

import altair as alt
import pandas as pd

from nodewise.core.units import write_number
from nodewise.models.registry import title_of
from nodewise.report import theme
from nodewise.report.figure import Figure, inline
from nodewise.report.figures import MODELS, _findings, figure
from nodewise.report.figures._encodings import HALF, shape_scale, tooltip
from nodewise.report.figures._panels import MOST_LINES
from nodewise.results.model_description import Architecture

KIND = "counted"
_ROOM = 4  # margin around the points, as a factor; squared on the right, for labels of lines
_NAMED = ["model", "kind", "payload_bytes", "training_flops", "flops_per_byte"]


def sizes(architectures: Mapping[str, Architecture]) -> pd.DataFrame:
    """Return one row per model: its payload in bytes, and the operations of training (FLOP).

    `training_flops` are per example; `flops_per_byte` is their ratio to the payload.
    """
    return pd.DataFrame(
        {
            "model": title_of(name),
            "kind": KIND,
            "payload_bytes": one.payload_bytes,
            "training_flops": one.training_flops_per_example,
            "flops_per_byte": one.flops_per_payload_byte,
        }
        for name, one in architectures.items()
    )


@figure(
    "compute-to-communication",
    tables=MODELS,
    rows=lambda tables: tables[MODELS].assign(of="models"),
    axes=["of"],
    plots="What a model computes, and what it communicates",
    reading=(
        "Along a dashed line the operations per byte are the same, at a batch of one; a batch of b "
        "examples raises every model by the factor b. The higher a model lies, at the same "
        "payload, the less communication weighs."
    ),
    order=110,
)
def compute_to_communication(rows: pd.DataFrame) -> Figure:
    """Draw the training operations per example over the payload (`sizes`), on log scales."""
    data = rows.drop(columns="of")
    words = "; ".join(
        f"{model}: {write_number(flops, 'FLOP')} for {write_number(payload, 'B')}, "
        f"{write_number(ratio, 'FLOP/B')}"
        for model, _, payload, flops, ratio in data.to_numpy()
    )
    return Figure(
        finding=_findings.describe_models(data),
        layers=_layers(data),
        data=data,
        title="What a model computes, and what it communicates",
        kinds=[KIND],
        alt=f"Operations of training one example against the bytes of a gradient. {words}.",
        caption="Dashed: the same number of operations per byte, at a batch of one.",
    )


def _layers(data: pd.DataFrame) -> list[alt.Chart]:
    """Return lines of equal ratio with labels, and a labelled point for each model."""
    ratios = _powers_of_ten(data["flops_per_byte"])
    left, right = data["payload_bytes"].min() / _ROOM, data["payload_bytes"].max() * _ROOM**2
    # so high that every line leaves the frame at its right edge, where its label is
    bottom, top = data["training_flops"].min() / _ROOM, 1.5 * ratios[-1] * right
    x = alt.X("payload_bytes:Q", title="Payload (bytes, log scale)")
    x = x.scale(type="log", domain=[left, right], nice=False)
    x = x.axis(format="~s", tickCount=4)
    y = alt.Y("training_flops:Q", title="Training one example (FLOP, log scale)")
    y = y.scale(type="log", domain=[bottom, top], nice=False)
    y = y.axis(format="~s", tickCount=6, grid=False)
    equal = [
        {
            "ratio": f"{ratio:,g} FLOP/B",
            "payload_bytes": payload,
            "training_flops": payload * ratio,
        }
        for ratio in ratios
        for payload in (max(left, bottom / ratio), right)
    ]
    return [*_equal_ratios(pd.DataFrame(equal), x, y), *_named_points(inline(data), x, y)]


def _equal_ratios(equal: pd.DataFrame, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Return lines of equal ratio, each labelled at its right end."""
    right = equal["payload_bytes"].max()
    lines = (
        alt.Chart(equal)
        .mark_line(strokeDash=[4, 4], strokeWidth=1, color=theme.NEUTRAL, opacity=0.7)
        .encode(x=x, y=y, detail=alt.Detail("ratio:N"))
    )
    names = (
        alt.Chart(equal[equal["payload_bytes"] == right])
        .mark_text(align="right", baseline="bottom", dx=-4, fontSize=12)
        .encode(x=x, y=y, text=alt.Text("ratio:N"))
    )
    return [lines, names]


def _named_points(shown: pd.DataFrame, x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """Return a point for each model, and its title beside it."""
    points = (
        alt.Chart(shown)
        .mark_point(size=90, strokeWidth=2.5, opacity=1)
        .encode(
            x=x,
            y=y,
            color=alt.Color("kind:N", legend=None).scale(
                domain=[KIND], range=theme.kind_colours([KIND])
            ),
            shape=alt.Shape("kind:N", legend=None, scale=shape_scale([KIND])),
            tooltip=tooltip(shown, _NAMED),
        )
    )
    middle = math.sqrt(shown["payload_bytes"].min() * shown["payload_bytes"].max())
    named = shown.assign(lift=_lifts(shown, middle))
    labels = [
        alt.Chart(rows)
        .mark_text(
            align="left" if before else "right",
            dx=9 if before else -9,
            dy=alt.ExprRef(f"{HALF} ? datum.lift : 0"),
            fontSize=12,
        )
        .encode(x=x, y=y, text=alt.Text("model:N"))
        for before in (True, False)
        if len(rows := named[(named["payload_bytes"] <= middle) == before])
    ]
    return [*labels, points]


def _lifts(data: pd.DataFrame, middle: float) -> list[int]:
    """Return how far down each name is moved in a narrow chart, in pixels.

    This moves neighbouring names apart. From the highest point on, names in the left half move down
    and up in turn, those in the right half up and down.
    """
    before = data["payload_bytes"] <= middle
    ranks = data.groupby(before)["training_flops"].rank(method="first", ascending=False)
    return [9 if (rank % 2 == 1) == left else -9 for rank, left in zip(ranks, before, strict=True)]


def _powers_of_ten(values: pd.Series) -> list[float]:
    """Return powers of ten that enclose `values`; some are skipped to have at most `MOST_LINES`."""
    lowest, highest = math.floor(math.log10(values.min())), math.ceil(math.log10(values.max()))
    step = -(-(highest - lowest) // (MOST_LINES - 1)) or 1
    last = -(-(highest - lowest) // step) * step
    return [10.0 ** (lowest + more) for more in range(0, last + 1, step)]
