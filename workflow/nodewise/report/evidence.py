"""Decide which comparisons count as evidence for a verdict. The page Method states these rules.

- Times: each point must have at least `LAUNCHES` launches and no caution, and the batch of the
  study that the comparison is about.
- Accuracies: each point must have at least `LAUNCHES` launches and the study's batch. The number of
  epochs must be the study's, or both trainings must have settled. Cautions are about time, so they
  matter only if workers do not wait for each other: then times decide how late gradients are.
- Bytes: each point must have the study's batch. Bytes are counted, so one launch is enough.
"""

from collections.abc import Mapping, Sequence

import pandas as pd

from nodewise.results.comparisons import never_wait
from nodewise.results.queries import Tables

LAUNCHES = 3
CURRENT_SINCE = pd.Timestamp("2026-11-22T23:00Z")
"""Cells that started earlier are superseded: workers gave freed memory back, and convolutions did
without oneDNN on some processors. Their points still count within their own study."""
SETTLED = 0.01
"""A training has settled if its accuracy changed by less than this in the last third of epochs.

The accuracy is that of the training examples.
"""
_SETTLED_EPOCHS = 3  # a training with fewer epochs has no last third

NEEDS = {
    "launches": "at least three launches of each point",
    "rest": "points without a caution",
    "batch": "the study's own batch",
    "epochs": "the study's epochs, or trainings that have settled",
}
"""What a comparison may lack, and what is needed so that it counts."""

_STUDIED = ["study", "model"]


def check_times(rows: pd.DataFrame, tables: Tables, *, other: str | None = None) -> pd.DataFrame:
    """Add the column `lacks`: what times, or comparisons of two times, lack to count as evidence.

    Args:
        rows: one point or one comparison per row, with `study`, `model`, `batch_per_worker`, and
            `repeats` and `flags` of each point.
        tables: the tables of results; the published ones have the batches of the studies.
        other: the suffix of the columns of the second point; None if rows are single points.

    Returns:
        The rows. `lacks` has keys of `NEEDS`, separated by spaces; it is empty for rows that count.
    """
    flags = rows[_of_each("flags", other)].fillna("")
    return _with_lacks(
        rows,
        launches=_few_launches(rows, other),
        rest=(flags != "").any(axis=1),
        batch=_other_batch(rows, tables),
    )


def check_accuracies(
    rows: pd.DataFrame, tables: Tables, *, other: str | None = None
) -> pd.DataFrame:
    """Add the column `lacks`: what accuracies, or comparisons of two, lack to count as evidence.

    Args:
        rows: one training or one comparison per row, with `study`, `model`, `batch_per_worker`,
            `epochs`, and `repeats` and `cell_id` of each point.
        tables: the tables of results; the published ones have the batches and epochs of the
            studies.
        other: the suffix of the columns of the second point; None if rows are single points.

    Returns:
        The rows. `lacks` has keys of `NEEDS`, separated by spaces; it is empty for rows that count.
    """
    cells = rows[_of_each("cell_id", other)]
    settled = cells.isin(_settled(tables["epochs"])).all(axis=1)
    return _with_lacks(
        rows,
        launches=_few_launches(rows, other),
        rest=cells.isin(_late_by_chance(tables["curves"])).any(axis=1),
        batch=_other_batch(rows, tables),
        epochs=~(settled | _is_of_study(rows, tables, "epochs")),
    )


def check_bytes(rows: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Add the column `lacks`: what comparisons of bytes lack to count as evidence."""
    return _with_lacks(rows, batch=_other_batch(rows, tables))


def select(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the comparisons or points that count as evidence."""
    return rows[rows["lacks"] == ""]


def needs(rows: pd.DataFrame) -> str:
    """Say in a sentence what has to be measured, if none of `rows` counts as evidence.

    The sentence is about the row that lacks least.
    """
    if rows.empty:
        return "Nothing comparable was measured: both sides are needed, with three launches each."
    nearest = min(rows["lacks"].astype(str), key=lambda lacks: len(lacks.split()))
    if len(rows) == 1:
        return f"The only comparison does not count: it needs {lacks_in_words(nearest)}."
    return f"None of {len(rows)} comparisons counts: they need {lacks_in_words(nearest)}."


def lacks_in_words(lacks: str) -> str:
    """Return what a comparison needs to count as evidence; empty if it counts."""
    return " and ".join(NEEDS[name] for name in lacks.split())


def _with_lacks(rows: pd.DataFrame, **lacks: "pd.Series[bool]") -> pd.DataFrame:
    each = zip(*lacks.values(), strict=True)
    names = [" ".join(name for name, one in zip(lacks, of, strict=True) if one) for of in each]
    return rows.assign(lacks=pd.Series(names, rows.index, dtype="str"))


def _of_each(column: str, other: str | None) -> list[str]:
    return [column] if other is None else [column, f"{column}{other}"]


def _few_launches(rows: pd.DataFrame, other: str | None) -> "pd.Series[bool]":
    return rows[_of_each("repeats", other)].min(axis=1) < LAUNCHES


def _other_batch(rows: pd.DataFrame, tables: Tables) -> "pd.Series[bool]":
    """Return which rows have a batch that the study did not publish for their model.

    Rows of models for which the study published no batch are False.
    """
    printed = _printed(tables, "batch_per_worker")
    known = pd.Series(
        [key in printed for key in rows[_STUDIED].itertuples(index=False, name=None)], rows.index
    )
    return known & ~_is_of_study(rows, tables, "batch_per_worker")


def _is_of_study(rows: pd.DataFrame, tables: Tables, axis: str) -> "pd.Series[bool]":
    printed = _printed(tables, axis)
    of = zip(rows["study"], rows["model"], rows[axis], strict=True)
    return pd.Series(
        [value in printed.get((study, model), ()) for study, model, value in of],
        rows.index,
        dtype="bool",
    )


def _printed(tables: Tables, axis: str) -> Mapping[tuple[str, str], Sequence[int]]:
    """Return the values of `axis` that the studies published, by study and model."""
    columns = [*_STUDIED, axis]
    rows = pd.concat([tables[name][columns] for name in ("published", "published_runs")])
    known = rows.dropna().drop_duplicates()
    return {
        (str(study), str(model)): [int(value) for value in of[axis]]
        for (study, model), of in known.groupby(_STUDIED)
    }


def _late_by_chance(curves: pd.DataFrame) -> set[str]:
    """Return the cells of points that have a caution and whose workers do not wait for each other.

    The staleness of their gradients depends on times, which the caution makes doubtful.
    """
    cautious = curves[never_wait(curves) & (curves["flags"] != "")]
    return set(cautious["cell_id"])


def _settled(epochs: pd.DataFrame) -> set[str]:
    """Return the cells of trainings that have settled, as `SETTLED` defines it."""
    found = set()
    for cell_id, rows in epochs.groupby("cell_id"):
        accuracy = rows.sort_values("epoch")["accuracy"].to_numpy()
        third = len(accuracy) // _SETTLED_EPOCHS
        if third and abs(accuracy[-1] - accuracy[-1 - third]) < SETTLED:
            found.add(str(cell_id))
    return found
