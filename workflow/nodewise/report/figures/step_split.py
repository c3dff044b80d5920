"""Draw the parts of a step, by batch and nodes."""

import altair as alt
import pandas as pd

from nodewise.report.figure import Figure
from nodewise.report.figures import _findings, _rows, figure
from nodewise.report.figures._encodings import caution_key, kinds_of
from nodewise.report.figures._nested_axes import BAR_GAP, batch_axis, node_numbers, node_offset
from nodewise.report.figures._rows import LINE
from nodewise.report.figures._stacks import MARKED, READING, cautions, stacked
from nodewise.report.figures._words import values_in_words
from nodewise.results.queries import LAUNCHES, TIMED_STEP

_POINT = ["kind", "line", "batch_per_worker", "nodes"]
_READING = (
    "Input is the wait for examples in the timed steps. The other parts come from separate split "
    "steps: the gradient (compute), waiting for other workers (wait), the exchange (communicate), "
    "the update of the weights (apply). An exchange that cannot be timed apart from computing "
    "counts as compute. A part is as long as its share of all split steps times the median split "
    "step (with parameter averaging, the mean one); of several launches the median is shown. Where "
    f"a strategy was not run on one node, its bar there is plain training in one process. {READING}"
)


@figure(
    "split",
    tables="curves cells published published_runs",
    rows=_rows.step_parts,
    axes=LINE,
    plots="Where the time of a step goes",
    reading=_READING,
    section="Where the time goes",
    order=40,
)
def step_split(rows: pd.DataFrame) -> Figure:
    """Draw the parts of a step as stacked bars, by batch and nodes (`queries.step_parts`)."""
    data = rows[[*_POINT, "part", "seconds", *TIMED_STEP, *LAUNCHES]]
    places: dict[str, alt.X | alt.XOffset] = {
        "x": batch_axis(data),
        "xOffset": node_offset(data, BAR_GAP),
    }
    step = data.groupby(["batch_per_worker", "nodes"])["seconds"].transform("sum")
    shares = data.assign(share=data["seconds"] / step)[data["part"] == "communicate"]
    return Figure(
        finding=_findings.describe_parts(rows),
        layers=[
            *stacked(data, _POINT, **places),
            *cautions(data, _POINT, **places),
            node_numbers(data, BAR_GAP),
        ],
        data=data,
        title="Where the time of a step goes",
        kinds=kinds_of(data),
        alt=(
            "The parts of a step, stacked: input, compute, wait, communicate, apply. "
            f"Share of communication. {values_in_words(shares, 'share', 'share')}"
        ),
        caption=caution_key(data, MARKED).strip(),
    )
