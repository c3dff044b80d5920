"""A figure: its chart, the data it draws, and the words that belong to it."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import pandas as pd

from nodewise.charts import theme
from nodewise.quantities import KINDS, base_kind, write_number

VEGA_LITE = ".".join(alt.SCHEMA_VERSION.removeprefix("v").split(".")[:2])

TITLES = {
    "batch_per_worker": "Batch per worker",
    "seconds": "Time (s)",
    "low": "90 % interval from",
    "high": "90 % interval to",
    "repeats": "Launches",
    "line": "Strategy",
    "flags": "Caution",
    "step_time_s": "Step time (s)",
    "observed_s": "Observed step time (s)",
    "fitted_s": "Step time by the formula (s)",
    "low_s": "Interval from (s)",
    "high_s": "Interval to (s)",
}


@dataclass(frozen=True)
class Figure:
    """One chart and its words.

    Attributes:
        figure: which figure this is, such as `time`.
        of: the axes that all its data share, name -> value.
        chart: the chart, without title and size.
        data: what the chart draws.
        title: what is shown.
        kinds: the kinds of the numbers shown; the chart's subtitle.
        alt: the picture in words, made from the data.
        caption: how to read it.
    """

    figure: str
    of: dict[str, str]
    chart: alt.LayerChart
    data: pd.DataFrame
    title: str
    kinds: Sequence[str]
    alt: str
    caption: str

    @property
    def name(self) -> str:
        """The stem of the figure's files."""
        of = [self.of["curve"]] if "curve" in self.of else self.of.values()
        return re.sub(r"[^a-z0-9_]+", "-", "-".join([*of, self.figure]).lower())

    @property
    def where(self) -> list[str]:
        """The experiment and the strategy that it is of, as far as it is of one only."""
        return [self.of[axis] for axis in ("experiment", "line", "strategy") if axis in self.of]

    def spec(self) -> dict[str, Any]:
        """Return the Vega-Lite specification, as wide as its container, with its data inline."""
        chart = self.chart.properties(
            width="container",
            height=theme.HEIGHT,
            title=alt.Title(self.title, subtitle=" · ".join([*self.kinds, *self.where])),
            description=self.alt,
            usermeta={
                "figure": self.figure,
                "of": self.of,
                "kinds": [*self.kinds],
                "caption": self.caption,
            },
        )
        spec: dict[str, Any] = chart.to_dict()
        return spec | {"config": theme.vega_config(dark=False)}

    def csv(self) -> str:
        """Return the data as CSV."""
        return self.data.to_csv(index=False, lineterminator="\n")


def layered(*charts: alt.Chart) -> alt.LayerChart:
    """Return the charts on top of each other, the last one uppermost."""
    return alt.LayerChart(layer=[*charts])


def few(narrow: int, wide: int) -> alt.ExprRef:
    """Return the number of legend columns: `narrow` of them on a telephone, else `wide`."""
    return alt.ExprRef(f"width < 300 ? {narrow} : {wide}")


def spec_json(spec: dict[str, Any]) -> str:
    """Return a specification as text; equal specifications give equal text."""
    return json.dumps(spec, ensure_ascii=False, allow_nan=False, separators=(",", ":")) + "\n"


def inline(data: pd.DataFrame) -> pd.DataFrame:
    """Return `data` with five significant digits: enough to draw, and half the specification."""
    floats = [str(name) for name in data.select_dtypes("float64").columns]
    return data.assign(
        **{name: data[name].map(lambda value: float(f"{value:.5g}")) for name in floats}
    )


def kinds_of(data: pd.DataFrame) -> list[str]:
    """Return the kind labels that occur in `data`, in the order of `KINDS`."""
    order = list(KINDS)
    return sorted(data["kind"].unique(), key=lambda label: (order.index(base_kind(label)), label))


def tooltip(data: pd.DataFrame, names: Sequence[str]) -> list[alt.Tooltip]:
    """Return tooltips for those of `names` that have values in `data`."""
    return [
        alt.Tooltip(
            name,
            title=TITLES.get(name, name.replace("_", " ").capitalize()),
            format=",.4~g" if data[name].dtype == "float64" else alt.Undefined,
        )
        for name in names
        if data[name].notna().any()
    ]


def in_words(data: pd.DataFrame, value: str, unit: str) -> str:
    """Say, kind by kind, the values over the nodes at the smallest and at the largest batch."""
    sentences = []
    for kind in kinds_of(data):
        rows = data[data["kind"] == kind]
        ends = (rows["batch_per_worker"].min(), rows["batch_per_worker"].max())
        parts = [
            _over_nodes(rows[rows["batch_per_worker"] == batch], batch, value, unit)
            for batch in dict.fromkeys(ends)
        ]
        sentences.append(f"{kind.capitalize()}: {'; '.join(parts)}.")
    return " ".join(sentences)


def _over_nodes(rows: pd.DataFrame, batch: int, value: str, unit: str) -> str:
    points = rows.drop_duplicates("nodes").sort_values("nodes")
    values = [
        f"{write_number(number, unit)} on {nodes}"
        for nodes, number in zip(points["nodes"], points[value], strict=True)
    ]
    plural = "s" if points["nodes"].max() > 1 else ""
    return f"batch {batch}, {', '.join(values)} node{plural}"
