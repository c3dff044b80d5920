"""Define the look of all charts: colours, shapes, and the light and dark settings.

The colours of marks have a contrast of at least 3:1 on both the white card and the dark page. No
chart relies on colour alone: what differs in colour also differs in the shape of its points and in
the dashes of its lines.
"""

import math
from collections.abc import Sequence
from typing import Any

from nodewise.core.units import KINDS, base_kind

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
# for names; none is the orange of published values
_PALETTE = ["#2f7fc1", "#0f8f6b", "#8b57cf", "#9c7a0a", "#c2549d", "#626d78"]
# in the order of a step; dark and light colours alternate, so that they differ in greyscale
PART_COLOURS = {
    "input": "#5e61c3",
    "compute": "#319fa4",
    "wait": "#8e6306",
    "communicate": "#ca769d",
    "apply": "#626d78",
}
NEUTRAL = "#7b8794"
ORDER_COLOURS = {"published order": "#1b7f4b", "another order": "#b3341f", "not measured": NEUTRAL}
# A batch or a number of nodes has the same colour in every chart. Numbers between two entries get a
# mixed colour. Dark and light colours alternate, so that neighbours differ in greyscale.
_NUMBERS = {
    1: "#616c7a",
    2: "#0f9bbd",
    3: "#08795e",
    4: "#57a122",
    8: "#756c0f",
    16: "#5e90de",
    32: "#3961dd",
    64: "#a67dda",
    128: "#b03f8a",
    256: "#de6f60",
    512: "#ae4f0c",
    1024: "#b9880a",
    65536: "#6f6a1a",
}
SHAPES = ["circle", "square", "triangle-up", "diamond", "triangle-down", "cross"]
DASHES: list[Sequence[float]] = [[1, 0], [6, 3], [8, 3, 2, 3], [12, 4], [3, 3], [1.5, 2.5]]

WIDTH, HEIGHT, PANEL = 720, 300, 170
PHONE = 286  # width of a chart on a screen of 360 pixels
FONT = "system-ui, sans-serif"  # short: each text of a picture names it


def colours(field: str, values: Sequence[Any]) -> list[str]:
    """Return the colours of the values of a column.

    Batches, numbers of nodes, parts of a step and kinds of numbers have the same colour in every
    chart. Of other names, those that begin with a kind other than ours have the colour of the kind.
    """
    if field in ("batch_per_worker", "nodes"):
        return [_of_number(int(value)) for value in values]
    if field in ("order", "part"):
        return [(ORDER_COLOURS | PART_COLOURS)[value] for value in values]
    if field == "kind":
        return [KIND_COLOURS[base_kind(value)] for value in values]
    palette = iter(_PALETTE * len(values))
    theirs = tuple(KINDS.keys() - {"measured", "emulated", "emulated soft"})
    return [
        next((KIND_COLOURS[kind] for kind in theirs if str(value).startswith(kind)), "")
        or next(palette)
        for value in values
    ]


def _of_number(value: int) -> str:
    """Return the colour of `value`, mixed from the nearest entries on a log scale."""
    low = max(stop for stop in _NUMBERS if stop <= value)
    high = min((stop for stop in _NUMBERS if stop > value), default=low)
    share = math.log(value / low) / math.log(high / low) if low < value < high else 0
    ends = [[int(_NUMBERS[end][i : i + 2], 16) for i in (1, 3, 5)] for end in (low, high)]
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
        # pages describe charts in words, so descriptions of single marks (ARIA) are not needed
        "aria": False,
        "mark": {"aria": False},
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
        "header": {"labelColor": ink, "labelFontSize": 12, "labelPadding": 6},
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
            "columnPadding": 28,  # fonts of readers may be wider
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
        "style": {"interval": {"color": ink}},  # on bars of any colour, and beyond them
    }
