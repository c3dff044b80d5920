"""Decide which comparisons count as evidence for a verdict. The page Method states these rules.

- Times: each point must have at least `EVIDENCE_REPEATS` launches and no caution, and the batch of
  the study that the comparison is about.
- Accuracies: each point must have as many launches, and the study's batch. The number of epochs
  must be the study's, or both trainings must have settled. Cautions are about time, so they matter
  only if workers do not wait for each other: then times decide how late gradients are.
- Bytes: each point must have the study's batch. Bytes are counted, so one launch is enough.
"""

import pandas as pd

from nodewise.results.queries import Tables, never_wait
from nodewise.study.experiment import EVIDENCE_REPEATS

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
    return _with_lacks(
        rows,
        launches=_few_launches(rows, other),
        rest=(rows[_of_each("flags", other)].fillna("") != "").any(axis=1),
        batch=~_is_of_study(rows, tables, "batch_per_worker", if_none=True),
    )


def check_accuracies(
    rows: pd.DataFrame, tables: Tables, *, other: str | None = None
) -> pd.DataFrame:
    """Add the column `lacks`: what accuracies, or comparisons of two, lack to count as evidence.

    Arguments and result are those of `check_times`. The rows are trainings: they also have
    `epochs`, and `cell_id` of each point instead of `flags`.
    """
    cells, curves = rows[_of_each("cell_id", other)], tables["curves"]
    settled = cells.isin(_settled(tables["epochs"])).all(axis=1)
    late_by_chance = curves.loc[never_wait(curves) & (curves["flags"] != ""), "cell_id"]
    return _with_lacks(
        rows,
        launches=_few_launches(rows, other),
        rest=cells.isin([*late_by_chance]).any(axis=1),
        batch=~_is_of_study(rows, tables, "batch_per_worker", if_none=True),
        epochs=~(settled | _is_of_study(rows, tables, "epochs", if_none=False)),
    )


def check_bytes(rows: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """Add the column `lacks`: what comparisons of bytes lack to count as evidence."""
    batch = ~_is_of_study(rows, tables, "batch_per_worker", if_none=True)
    return _with_lacks(rows, batch=batch)


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
    # a point that was not measured has no number of launches
    return ~(rows[_of_each("repeats", other)].min(axis=1) >= EVIDENCE_REPEATS)


def _is_of_study(
    rows: pd.DataFrame, tables: Tables, axis: str, *, if_none: bool
) -> "pd.Series[bool]":
    """Return which rows have a value of `axis` that the study published for their model.

    `if_none` is the result for models for which the study published none.
    """
    key = ["study", "model"]
    known = pd.concat([tables[name][[*key, axis]] for name in ("published", "published_runs")])
    printed = known.dropna().groupby(key)[axis].agg(set)
    found = [
        value in printed[study, model] if (study, model) in printed.index else if_none
        for study, model, value in zip(*(rows[name] for name in (*key, axis)), strict=True)
    ]
    return pd.Series(found, rows.index, dtype="bool")


def _settled(epochs: pd.DataFrame) -> set[str]:
    """Return the cells of trainings that have settled, as `SETTLED` defines it."""
    found = set()
    for cell_id, rows in epochs.groupby("cell_id"):
        accuracy = rows.sort_values("epoch")["accuracy"].to_numpy()
        third = len(accuracy) // _SETTLED_EPOCHS
        if third and abs(accuracy[-1] - accuracy[-1 - third]) < SETTLED:
            found.add(str(cell_id))
    return found
