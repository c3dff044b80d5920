"""How every chart looks: one place for colours, shapes and the light and dark settings.

Mark colours keep a contrast of at least 3:1 on the white card and on the dark page alike, and each
kind of number has a shape of its own besides: nothing is told by colour alone.
"""

from collections.abc import Sequence
from typing import Any

from nodewise.quantities import PROJECTED, base_kind

KIND_COLOURS = {
    "measured": "#2f7fc1",
    "emulated": "#7d6bc4",
    "emulated soft": "#a35fb5",
    "published": "#d2600f",
    "fitted": "#0f8f6b",
    "predicted": "#c2549d",
    "counted": "#8a7a2e",
    "estimated": "#6f7680",
}
KIND_SHAPES = {
    "measured": "circle",
    "emulated": "square",
    "emulated soft": "triangle-down",
    "published": "diamond",
    "fitted": "stroke",
    "predicted": "M-0.8,-0.8L0.8,0.8M0.8,-0.8L-0.8,0.8",
    "counted": "cross",
    "estimated": "triangle-left",
}
PROJECTED_SHAPE = "triangle-up"
# told apart by the colour-blind, and on light and dark ground
CATEGORIES = [
    "#2f7fc1",
    "#d2600f",
    "#0f8f6b",
    "#c2549d",
    "#8a7a2e",
    "#7d6bc4",
    "#b98108",
    "#6f7680",
]
PART_COLOURS = {
    "input": "#6366c4",
    "compute": "#2b8a8f",
    "wait": "#b98108",
    "communicate": "#b8477a",
    "apply": "#7b8794",
}
NEUTRAL = "#7b8794"
_BATCH_STOPS = ("#4a6fe0", "#8b57cf", "#c2549d", "#d2600f", "#b08209")

WIDTH, HEIGHT = 720, 320
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def kind_colours(labels: Sequence[str]) -> list[str]:
    """Return one colour per kind label."""
    return [KIND_COLOURS[base_kind(label)] for label in labels]


def kind_shapes(labels: Sequence[str]) -> list[str]:
    """Return one point shape per kind label."""
    return [
        PROJECTED_SHAPE if PROJECTED in label else KIND_SHAPES[base_kind(label)] for label in labels
    ]


def batch_colours(count: int) -> list[str]:
    """Return `count` colours along one ramp, for batches in rising order."""
    last = len(_BATCH_STOPS) - 1
    if count == 1:
        return [_BATCH_STOPS[0]]
    return [_between(last * index / (count - 1)) for index in range(count)]


def _between(position: float) -> str:
    low = min(int(position), len(_BATCH_STOPS) - 2)
    share = position - low
    ends = [[int(stop[i : i + 2], 16) for i in (1, 3, 5)] for stop in _BATCH_STOPS[low : low + 2]]
    mixed = [round(a + (b - a) * share) for a, b in zip(*ends, strict=True)]
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def vega_config(*, dark: bool) -> dict[str, Any]:
    """Return the Vega-Lite config of the light or the dark page."""
    ink, muted, faint = (
        ("#e4e7ec", "#a9b1bd", "#2b313b") if dark else ("#1d232b", "#5b6572", "#e3e6ea")
    )
    return {
        "background": "transparent",
        "font": FONT,
        "padding": {"left": 4, "right": 8, "top": 4, "bottom": 4},
        "view": {"stroke": "transparent"},
        "axis": {
            "labelColor": muted,
            "titleColor": muted,
            "titleFontWeight": "normal",
            "titleFontSize": 12,
            "labelFontSize": 12,
            "gridColor": faint,
            "domainColor": faint,
            "tickColor": faint,
            "titlePadding": 8,
        },
        "axisX": {"grid": False},
        "legend": {
            "orient": "top",
            "labelColor": ink,
            "titleColor": muted,
            "titleFontWeight": "normal",
            "labelFontSize": 12,
            "titleFontSize": 12,
            "labelLimit": 260,
            "symbolSize": 80,
            "rowPadding": 4,
            "columnPadding": 14,
            "offset": 10,
            "layout": {"top": {"direction": "vertical", "anchor": "start", "margin": 4}},
        },
        "title": {
            "anchor": "start",
            "frame": "bounds",
            "color": ink,
            "fontSize": 15,
            "fontWeight": 600,
            "subtitleColor": muted,
            "subtitleFontSize": 12,
            "subtitlePadding": 5,
            "offset": 12,
        },
        "text": {"color": muted},
        "rule": {"color": muted},
    }
