"""The figures of the site. Each is a function that returns rows, with a declaration above it.

To add a figure, write a module in this folder. Pages ask for its charts with
`study.pick("stragglers", model="fashion_cnn")`; they are drawn then, and only then::

    @figure(
        "stragglers",
        each=["model", "dataset"],            # one chart for each combination
        plots="Step time by nodes",
        x=Axis("nodes", "Nodes", "log"),
        y=Axis("seconds", "Step time (s)", "log", unit="s"),
        interval=("low", "high"),
        colour="batch_per_worker",            # colours, shapes and dashes
        facet="cluster",                      # small multiples; leave out for a single plot
        guide="diagonal",                     # dashed line; `one` for a line at 1
        title=[                               # the first whose names all have values
            "A step takes {seconds} on {nodes} nodes at batch {batch_per_worker}, "
            "{seconds_first} at batch {batch_per_worker_first}",
            "A step takes {seconds} on {nodes} nodes",
        ],
        told="nodes > 1",                     # which rows the title may tell of
        rank=["nodes", "batch_per_worker"],   # it tells of the last one, and of the `_first`
        caption="Dashed: as many seconds as nodes.",
        reading="Points are medians over launches.",
    )
    def stragglers(study: ReportContext) -> pd.DataFrame:
        rows = with_labels(study.tables["curves"])
        return evidence.check_times(rows, study.tables).assign(kind=rows["label"], seconds=…)

Bars or points with names on the vertical axis: `mark="bar"` (stacked by `colour`) or
`mark="point"`, with `y=Axis("strategy", "", "names")` and the values on `x`. The names have the
order of the rows. Names of models, strategies (`strategy`, `line`), nodes (`cluster`) and
experiments are replaced by their titles. What columns the rows may have is said in `Figure`.
"""

from collections.abc import Callable
from typing import Any

from nodewise.core.registry import Registry
from nodewise.report.figure import Figure, Rows

FIGURES: Registry[Figure] = Registry("figure", "nodewise.report.figures")


def figure(name: str, **declared: Any) -> Callable[[Rows], Rows]:  # noqa: ANN401 (as `Figure`)
    """Register the decorated function, which returns the rows, as a figure; see `Figure`."""

    def register(rows: Rows) -> Rows:
        FIGURES.add(name, Figure(name, rows, **declared))
        return rows

    return register
