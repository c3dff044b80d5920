"""The answer to: What does it cost in accuracy?"""

from dataclasses import replace

import pandas as pd
from markupsafe import Markup

from nodewise.predict import comparisons
from nodewise.report.answers import answer
from nodewise.report.answers._finding import Finding, figures_of, with_numbers
from nodewise.report.context import ReportContext
from nodewise.report.html import (
    CAUTION,
    POINT,
    Column,
    number,
    text,
)

_ACCURACY = [
    *POINT,
    Column("epochs", "Epochs"),
    Column("of", "Examples"),
    Column("accuracy_one", "On one node", "accuracy", kind_from="label"),
    Column("accuracy", "Accuracy", "accuracy", kind_from="label"),
    *CAUTION,
]
# what trainings have in common that went through the same weights
_TRAINING = [
    *("model", "dataset", "batch_per_worker", "nodes", "epochs"),
    *("train_accuracy", "accuracy", "accuracy_one"),
]


@answer("accuracy", order=4)
def accuracy_cost(study: ReportContext) -> Finding:
    """Answer by whole trainings on several nodes, against the same epochs on one node."""
    asked = Finding(
        "accuracy", "What does it cost in accuracy?", "curves cells published published_runs"
    )
    rows = comparisons.accuracies(study.tables)
    told = comparisons.fair(rows)
    ours, theirs = (told[(told["label"] == "published") == of] for of in (False, True))
    trainings = ours.drop_duplicates(_TRAINING)
    said = [
        _changes(part, who)
        for part, who in ((trainings, "our trainings"), (theirs, "the published trainings"))
        if len(part)
    ]
    if not said:
        return with_numbers(study, asked, rows, _ACCURACY)
    answer = Markup("After the same number of epochs with the same batch per worker, {}.").format(
        Markup(", and ").join(said)
    )
    limits = []
    if ours.empty:
        limits.append(text("None of our trainings on several nodes went through whole epochs."))
    else:
        limits.append(
            text(
                "How far trainings with other seeds lie apart was not measured: small differences "
                "may be chance."
            )
        )
        limits.append(
            text("In our trainings the learning rate was not scaled with the global batch.")
        )
        limits.append(
            text(
                "A caution about time, such as more workers than cores, does not make an accuracy "
                "doubtful, except with asynchronous strategies, whose updates depend on timing."
            )
        )
    if len(trainings) < len(ours):
        limits.append(
            text(
                "Synchronous strategies that start from the same weights end with the same "
                "weights: trainings with equal accuracies are counted once."
            )
        )
    worst = ours.sort_values("change", kind="stable").iloc[0] if len(ours) else None
    figures = [] if worst is None else figures_of(study, worst, "accuracy-by-epoch", "accuracy")
    if figures and worst is not None and worst["of"] == "test":
        limits.append(text("The figure shows training accuracy, the answer test accuracy."))
    cells = sorted(set(ours["cell_id"]) - {""})[:4]
    told_of = replace(asked, answer=answer, figures=figures, cells=cells, limits=limits)
    return with_numbers(study, told_of, rows, _ACCURACY)


def _changes(rows: pd.DataFrame, who: str) -> Markup:
    """Return how many trainings on several nodes ended less accurate, and the largest loss."""
    worse = int((rows["change"] < 0).sum())
    if not worse:
        return Markup("none of {} of {} on several nodes ended less accurate than on one").format(
            len(rows), who
        )
    worst = rows.sort_values("change", kind="stable").iloc[0]
    said = Markup(
        "{} of {} of {} on several nodes ended less accurate than on one (largest loss: from {} to "
        "{} in {} accuracy)"
    )
    return said.format(
        *(worse, len(rows), who),
        *(number(worst[name], "accuracy", worst["label"]) for name in ("accuracy_one", "accuracy")),
        worst["of"],
    )
