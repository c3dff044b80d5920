"""Answer the question: What does it cost in accuracy?"""

from dataclasses import replace

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import counted
from nodewise.report import evidence
from nodewise.report.answers import answer
from nodewise.report.context import ReportContext
from nodewise.report.finding import Finding, figures_of
from nodewise.report.html import number, text
from nodewise.report.tables import EVIDENCE, POINT, Column
from nodewise.results.comparisons import never_wait, on_devices
from nodewise.results.queries import Tables, with_labels
from nodewise.results.tables import one_node_reference

_ACCURACY = [
    *POINT,
    Column("epochs", "Epochs"),
    Column("of", "Examples"),
    Column("accuracy_one", "On one node", "accuracy", kind_from="label"),
    Column("accuracy", "Accuracy", "accuracy", kind_from="label"),
    *EVIDENCE,
]
# trainings with equal values in these columns went through the same weights
_TRAINING = [
    *("model", "dataset", "batch_per_worker", "nodes", "epochs"),
    *("train_accuracy", "accuracy", "accuracy_one"),
]


@answer("accuracy", order=4)
def accuracy_cost(study: ReportContext) -> Finding:
    """Compare accuracies after the same number of epochs on several nodes and on one node."""
    rows = accuracies_beside_one(study.tables)
    rows = evidence.check_accuracies(rows, study.tables, other="_one")
    asked = Finding(
        "accuracy",
        "What does it cost in accuracy?",
        "curves cells",
        rows=rows,
        columns=_ACCURACY,
    )
    ours = evidence.select(rows)
    if ours.empty:
        return asked
    trainings = ours.drop_duplicates(_TRAINING)
    answer = Markup("After the same number of epochs with the same batch per worker, {}.").format(
        _changes(trainings)
    )
    limits = [
        text(
            "Each launch starts from weights of its own. Means of three launches differ by chance, "
            "too: a verdict on a claim rests on the interval of the difference."
        ),
        text("In our trainings the learning rate was not scaled with the global batch."),
        text(
            "A caution about time, such as more workers than cores, does not make an accuracy "
            "doubtful, unless workers do not wait for each other."
        ),
    ]
    if len(trainings) < len(ours):
        limits.append(
            text(
                "Synchronous strategies that start from the same weights end with the same "
                "weights: trainings with equal accuracies are counted once."
            )
        )
    worst = ours.sort_values("change", kind="stable").iloc[0]
    figures = figures_of(study, worst, "epochs", "accuracy")
    if figures and worst["of"] == "test":
        limits.append(text("The figure shows training accuracy, the answer test accuracy."))
    cells = sorted(set(ours["cell_id"]) - {""})[:4]
    return replace(asked, answer=answer, figures=figures, cells=cells, limits=limits)


def _changes(rows: pd.DataFrame) -> Markup:
    """Say how many trainings on several nodes ended less accurate, and the largest loss."""
    worse = int((rows["change"] < 0).sum())
    if not worse:
        sentence = Markup("none of our {} on several nodes ended less accurate than on one")
        return sentence.format(text(counted(len(rows), "training")))
    worst = rows.sort_values("change", kind="stable").iloc[0]
    sentence = Markup(
        "{} of our {} on several nodes ended less accurate than on one (largest loss: from {} to "
        "{} in {} accuracy)"
    )
    return sentence.format(
        *(worse, text(counted(len(rows), "training"))),
        *(number(worst[name], "accuracy", worst["label"]) for name in ("accuracy_one", "accuracy")),
        worst["of"],
    )


def accuracies_beside_one(tables: Tables) -> pd.DataFrame:
    """Return the accuracies of our trainings on several nodes and on one node.

    They trained whole epochs, with the same number of epochs and the same batch per worker.
    `accuracy` is that of the test examples if both trainings have one, else of the training
    examples. `accuracy_one` is the one on one node, and `change` the difference. Cautions are kept
    only for asynchronous strategies: what disturbs step times does not change the accuracy of
    synchronous ones.
    """
    done = tables["cells"].loc[tables["cells"]["whole_epochs"], ["cell_id", "epochs"]]
    ours = tables["curves"][tables["curves"]["whole_epochs"]].merge(done, "inner", "cell_id")
    ours = with_labels(ours[~on_devices(ours)])
    ours = ours.assign(
        label=ours["accuracy_label"], flags=ours["flags"].where(never_wait(ours), "")
    )
    key = ["study", "experiment", "model", "dataset", "cluster", "kind", "data_origin", "epochs"]
    values = ["train_accuracy", "test_accuracy", "cell_id", "repeats"]
    rows = one_node_reference(ours.drop(columns="cell_id_one"), [*key, "batch_per_worker"], values)
    rows = rows[(rows["nodes"] > 1) & rows["cell_id_one"].notna()]
    tested = rows["test_accuracy"].notna() & rows["test_accuracy_one"].notna()
    accuracy = rows["test_accuracy"].where(tested, rows["train_accuracy"])
    one = rows["test_accuracy_one"].where(tested, rows["train_accuracy_one"])
    of = tested.map({True: "test", False: "training"})
    return rows.assign(accuracy=accuracy, accuracy_one=one, change=accuracy - one, of=of)
