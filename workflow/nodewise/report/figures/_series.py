"""Give each line the colour of its strategy, and a shade and dashes of its own."""

from collections.abc import Sequence
from itertools import cycle
from typing import NamedTuple

import altair as alt

from nodewise.core.units import base_kind
from nodewise.report import theme
from nodewise.report.figures._encodings import by_value


class Series(NamedTuple):
    """One entry of a legend.

    Attributes:
        name: its value in the column `series`.
        strategy: the strategy whose colour it has.
        variant: series of one strategy and kind with different variants have different shades.
        kind: the kind of its numbers.
    """

    name: str
    strategy: str
    variant: str
    kind: str


def colours_of(series: Sequence[Series]) -> list[str]:
    """Return the colour of each series: that of its strategy, and shades of it for variants.

    Published series have a shade, too, so that our own stand out.
    """
    variants: dict[tuple[str, str], list[str]] = {}
    for one in series:
        known = variants.setdefault((_own_colour(one), one.kind), [])
        if one.variant not in known:
            known.append(one.variant)
    found = []
    for one in series:
        known = variants[_own_colour(one), one.kind]
        shades = theme.strategy_shades(one.strategy, max(len(known), 2))
        found.append(shades[1 if _is_published(one) else known.index(one.variant)])
    return found


def dashes_of(series: Sequence[Series]) -> list[Sequence[float]]:
    """Return the dashes of each series, all different in a plot; published series are dotted."""
    dashes = cycle(theme.DASHES)
    return [theme.DOTTED if _is_published(one) else next(dashes) for one in series]


def by_series(
    series: Sequence[Series], legend: alt.Legend
) -> tuple[alt.Color, alt.Fill, alt.StrokeDash]:
    """Return stroke, fill and dashes by the column `series`, with one `legend` of lines."""
    names = [one.name for one in series]
    legend.symbolType, legend.symbolOpacity = "stroke", 1
    legend.symbolSize = 600  # long enough to show the dashes
    colour, fill = by_value("series:N", None, names, colours_of(series), legend)
    scale = alt.Scale(domain=names, range=dashes_of(series))
    return colour, fill, alt.StrokeDash("series:N", title=None, scale=scale, legend=legend)


def _own_colour(series: Series) -> str:
    return theme.strategy_shades(series.strategy)[0]


def _is_published(series: Series) -> bool:
    return base_kind(series.kind) == "published"
