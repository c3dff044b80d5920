"""The figures of the site. Each is a function that returns rows, with a declaration above it.

To add a figure, write a module in this folder, as the page "Add to the site" shows; `Figure` says
what a declaration and its rows may have. Pages ask for charts with `study.pick("time", model=…)`,
and only these are drawn. Names of models, strategies (`strategy`, `line`), nodes (`cluster`) and
experiments are replaced by their titles.
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
