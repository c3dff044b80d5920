"""Define the look of all charts: colours, shapes, and the light and dark settings.

The colours of marks have a contrast of at least 3:1 on both the white card and the dark page. No
chart relies on colour alone: each kind of number also has its own shape, and lines of strategies
have different dashes.
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
# dashes distinguish lines without colour: solid first, and enough for all lines of a plot
DASHES: list[Sequence[float]] = [[1, 0], [6, 3], [8, 3, 2, 3], [12, 4], [3, 3], [12, 3, 2, 3, 2, 3]]
DOTTED: Sequence[float] = [1.5, 2.5]  # lines of published values
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
# The colour of each strategy, the same in every chart, and two shades of it. Shades are for a
# study's own variants of the strategy, for other nodes and for published values. The first hues are
# those of Okabe and Ito (https://jfly.uni-koeln.de/color/). The others were found by a search, such
# that all colours can be told apart, also by colour-blind readers.
STRATEGY_COLOURS = {
    "async_sgd": ("#6179f2", "#5064c8", "#7489f4"),
    "compressed_sgd": ("#468c00", "#65a02b", "#3d7a00"),
    "custom_loop": ("#d55e00", "#b24f00", "#db7626"),
    "horovod": ("#b247a1", "#c575b9", "#ba5bab"),
    "hybrid": ("#ec5f6a", "#b44851", "#d2555e"),
    "mirrored": ("#009e73", "#007b5a", "#009069"),
    "model_parallel": ("#99633d", "#b1886c", "#a47452"),
    "mpi": ("#0095e0", "#0072ac", "#0085c8"),
    "multi_worker_mirrored": ("#0072b2", "#4699c7", "#2385bd"),
    "parameter_averaging": ("#ca769d", "#985876", "#b16789"),
    "parameter_server": ("#a68d42", "#7d6a32", "#927c3a"),
    "single": ("#6f7680", "#8c9199", "#666d76"),
}
_OTHER_STRATEGY = ("#9a79ca", "#7a60a0", "#8e70bb")
# in the order of a step; dark and light colours alternate, so that they differ in greyscale
PART_COLOURS = {
    "input": "#5e61c3",
    "compute": "#319fa4",
    "wait": "#8e6306",
    "communicate": "#ca769d",
    "apply": "#626d78",
}
NEUTRAL = "#7b8794"
_RAMP = ("#4a6fe0", "#8b57cf", "#c2549d", "#d2600f", "#b08209")
# A number has the same colour in every chart. Numbers between two entries get a mixed colour.
# Dark and light colours alternate, so that neighbours differ in greyscale. No batch has the colour
# of a number of nodes.
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

INTERVAL = "interval"
"""The name of the style of intervals on bars."""

WIDTH, HEIGHT = 720, 320
PADDING = {"left": 4, "right": 8, "top": 4, "bottom": 4}
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def kind_colours(labels: Sequence[str]) -> list[str]:
    """Return one colour per kind label."""
    return [KIND_COLOURS[base_kind(label)] for label in labels]


def kind_shapes(labels: Sequence[str]) -> list[str]:
    """Return one point shape per kind label."""
    return [
        PROJECTED_SHAPE if PROJECTED in label else KIND_SHAPES[base_kind(label)] for label in labels
    ]


def strategy_shades(strategy: str, count: int = 1) -> list[str]:
    """Return `count` colours of a strategy: its own, then shades of it.

    Strategies that are not listed in `STRATEGY_COLOURS` share one colour.
    """
    shades = STRATEGY_COLOURS.get(strategy, _OTHER_STRATEGY)
    if count <= len(shades):
        return [*shades[:count]]
    return [_mixed(shades[0], shades[1], index / (count - 1)) for index in range(count)]


def batch_colours(batches: Sequence[int]) -> list[str]:
    """Return the colour of each batch, the same in every chart."""
    return [_of(batch, _BATCHES) for batch in batches]


def node_colours(counts: Sequence[int]) -> list[str]:
    """Return the colour of each number of nodes, the same in every chart."""
    return [_of(count, _NODES) for count in counts]


def ramp(count: int) -> list[str]:
    """Return `count` colours along a ramp, for ordered values other than batches and nodes."""
    last = len(_RAMP) - 1
    places = [last * index / max(count - 1, 1) for index in range(count)]
    lows = [min(int(place), last - 1) for place in places]
    ends = zip(places, lows, strict=True)
    return [_mixed(_RAMP[low], _RAMP[low + 1], place - low) for place, low in ends]


def _of(value: int, stops: dict[int, str]) -> str:
    """Return the colour of `value`, interpolated between the nearest stops on a log scale."""
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
        "padding": PADDING,
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
        "style": {INTERVAL: {"color": ink}},  # on bars of any colour, and beyond them
    }
