"""Rules about the accuracy of trained models."""

import pandas as pd

from nodewise.core.intervals import students_t
from nodewise.report import evidence
from nodewise.report.claim_rules import beside, claim_rule
from nodewise.results.columns import CURVE_KEY
from nodewise.results.comparisons import ALIKE
from nodewise.results.queries import Tables, plain_training, with_labels


@claim_rule("keeps_accuracy")
def keeps_accuracy(tables: Tables, _: Tables, *, study: str, loss: float) -> pd.DataFrame:
    """Check that several nodes lose at most `loss` of the training accuracy on one node.

    Both trainings have the same number of epochs. For each experiment, model, strategy and number
    of nodes, the batch that loses least is compared, of those at which several nodes were faster
    than one; batches that count as evidence are preferred. Points with more workers than cores are
    left out. Other cautions, such as about a busy machine, do not matter.
    """
    rows = _trainings(tables)
    rows = rows[rows["study"] == study]
    several = rows[(rows["nodes"] > 1) & ~rows["oversubscribed"] & (rows["speedup"] > 1)]
    pair = several.merge(plain_training(rows), "inner", [*ALIKE, "epochs"], suffixes=("", "_other"))
    pair = evidence.check_accuracies(pair, tables, other="_other")
    pair = pair.assign(
        change=pair["train_accuracy"] - pair["train_accuracy_other"], short=pair["lacks"] != ""
    )
    pair = pair.sort_values(["short", "change"], kind="stable", ascending=[True, False])
    best = pair.drop_duplicates(["experiment", "model", "strategy", "nodes"])
    return _compared(best, "train", loss)


@claim_rule("as_accurate")
def as_accurate(tables: Tables, _: Tables, *, way: str, than: str, loss: float) -> pd.DataFrame:
    """Check that the test accuracy is at most `loss` below that of another strategy.

    Both strategies trained on the same number of nodes, for the same number of epochs.
    """
    rows = _trainings(tables)
    pair = beside(rows[rows["nodes"] > 1].dropna(subset="test_accuracy"), way, than)
    pair = pair[pair["epochs"] == pair["epochs_other"]]
    pair = evidence.check_accuracies(pair, tables, other="_other")
    return _compared(pair, "test", loss)


def _trainings(tables: Tables) -> pd.DataFrame:
    """Return the points that trained for whole epochs, with the errors of their accuracies.

    `epochs` is the number of epochs. `train_error` and `test_error` are standard errors over the
    launches, NaN where a point was launched once.
    """
    curves, cells = tables["curves"], tables["cells"]
    done = cells[(cells["status"] == "ok") & cells["whole_epochs"]]
    spread = done.groupby(CURVE_KEY, as_index=False).agg(
        epochs=("epochs", "first"),
        train_error=("train_accuracy", "sem"),
        test_error=("test_accuracy", "sem"),
    )
    return with_labels(curves[curves["whole_epochs"]]).merge(spread, "inner", CURVE_KEY)


def _compared(pair: pd.DataFrame, name: str, loss: float) -> pd.DataFrame:
    """Return the ratios of the `train` or `test` accuracies of pairs of points.

    The 90 % interval is Student's t over the launches. The ratio exceeds `least` if the accuracy is
    less than `loss` below the other one.
    """
    score, error = f"{name}_accuracy", f"{name}_error"
    one = pair[f"{score}_other"]
    freedom = pair["repeats"] + pair["repeats_other"] - 2
    error_of_both = (pair[error] ** 2 + pair[f"{error}_other"] ** 2) ** 0.5
    reach = error_of_both * students_t(freedom)
    change = pair[score] - one
    return pair.assign(
        value=pair[score] / one,
        low=1 + (change - reach) / one,
        high=1 + (change + reach) / one,
        least=1 - loss / one,
        label=pair["accuracy_label"],
    )
