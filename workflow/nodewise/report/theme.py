"""How every chart looks: one place for colours, shapes and the light and dark settings.

Mark colours keep a contrast of at least 3:1 on the white card and on the dark page alike, and each
kind of number has a shape of its own besides: nothing is told by colour alone.
"""

import math
from collections.abc import Sequence
from typing import Any

from nodewise.core.units import PROJECTED, base_kind

KIND_COLOURS = {
    "measured": "#2f7fc1",
    "emulated": "#7d6bc4",
    "emulated soft": "#a35fb5",
    "published": "#d2600f",
    "imported": "#1b8f9c",
    "fitted": "#0f8f6b",
    "predicted": "#c2549d",
    "counted": "#8a7a2e",
    "estimated": "#6f7680",
}
# a darker and a lighter tone of each, for lines of one kind that are of different clusters
KIND_TONES = {
    "measured": ("#296fa8", "#4a96d3"),
    "emulated": ("#6f5bbe", "#9587cf"),
    "emulated soft": ("#964ea8", "#b47cc3"),
    "published": ("#ae4f0c", "#eb6b11"),
    "imported": ("#157f8b", "#2596a5"),
    "fitted": ("#0d7a5b", "#11a37b"),
    "predicted": ("#b03f8a", "#cd72af"),
    "counted": ("#786b28", "#a39036"),
    "estimated": ("#656c75", "#8a9199"),
}
MOST_TONES = 3  # with the colour itself
DASHES: list[Sequence[float]] = [[1, 0], [6, 3], [1.5, 2.5], [8, 3, 2, 3]]
KIND_SHAPES = {
    "measured": "circle",
    "emulated": "square",
    "emulated soft": "triangle-down",
    "published": "diamond",
    "imported": "triangle-right",
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
# in the order of a step, a dark and a light one in turn: to be told apart in grey
PART_COLOURS = {
    "input": "#5e61c3",
    "compute": "#319fa4",
    "wait": "#8e6306",
    "communicate": "#ca769d",
    "apply": "#626d78",
}
NEUTRAL = "#7b8794"
_RAMP = ("#4a6fe0", "#8b57cf", "#c2549d", "#d2600f", "#b08209")
# One colour for one number in every chart: what lies between two of these has a colour between
# theirs. Neighbours are a dark and a light one, to be told apart in grey; no batch looks like a
# number of nodes.
_BATCHES = {
    1: "#28797e",
    8: "#4f6e9c",
    16: "#5e90de",
    32: "#3961dd",
    64: "#a67dda",
    128: "#b03f8a",
    256: "#de6f60",
    512: "#ae4f0c",
    1024: "#b9880a",
    65536: "#6f6a1a",
}
_NODES = {
    1: "#616c7a",
    2: "#0f9bbd",
    3: "#08795e",
    4: "#57a122",
    8: "#756c0f",
    16: "#b18b27",
    64: "#96602c",
    1024: "#c87d3c",
}

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


def kind_tones(label: str, count: int) -> list[str]:
    """Return colours for `count` lines of one kind: tones of its own colour, if they are few."""
    kind = base_kind(label)
    dark, light = KIND_TONES[kind]
    few = {1: [KIND_COLOURS[kind]], 2: [dark, light], 3: [dark, KIND_COLOURS[kind], light]}
    return few.get(count) or [CATEGORIES[index % len(CATEGORIES)] for index in range(count)]


def batch_colours(batches: Sequence[int]) -> list[str]:
    """Return the colour of each batch, the same in every chart."""
    return [_of(batch, _BATCHES) for batch in batches]


def node_colours(counts: Sequence[int]) -> list[str]:
    """Return the colour of each number of nodes, the same in every chart."""
    return [_of(count, _NODES) for count in counts]


def ramp(count: int) -> list[str]:
    """Return `count` colours along one ramp, for what rises and is neither batch nor nodes."""
    last = len(_RAMP) - 1
    places = [last * index / max(count - 1, 1) for index in range(count)]
    lows = [min(int(place), last - 1) for place in places]
    ends = zip(places, lows, strict=True)
    return [_mixed(_RAMP[low], _RAMP[low + 1], place - low) for place, low in ends]


def _of(value: int, stops: dict[int, str]) -> str:
    """Return the colour of `value`, on the scale of logarithms between the two nearest stops."""
    low = max((stop for stop in stops if stop <= value), default=min(stops))
    high = min((stop for stop in stops if stop > value), default=low)
    share = math.log(value / low) / math.log(high / low) if low < value < high else 0
    return _mixed(stops[low], stops[high], share)


def _mixed(one: str, other: str, share: float) -> str:
    ends = [[int(colour[i : i + 2], 16) for i in (1, 3, 5)] for colour in (one, other)]
    mixed = [round(a + (b - a) * share) for a, b in zip(*ends, strict=True)]
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def vega_config(*, dark: bool) -> dict[str, Any]:
    """Return the Vega-Lite config of the light or the dark page."""
    ink, muted, faint, card = (
        ("#e4e7ec", "#a9b1bd", "#2b313b", "#1b2028")
        if dark
        else ("#1d232b", "#5b6572", "#e3e6ea", "#ffffff")
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
        "bar": {"stroke": card, "strokeWidth": 1},
        "text": {"color": muted},
        "rule": {"color": muted},
    }
