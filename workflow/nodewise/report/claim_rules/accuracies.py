"""Rules about what a training learnt."""

import pandas as pd

from nodewise.core.intervals import students_t
from nodewise.report import evidence
from nodewise.report.claim_rules import beside, claim_rule
from nodewise.results.cautions import OVERSUBSCRIBED
from nodewise.results.columns import CURVE_KEY
from nodewise.results.comparisons import ALIKE
from nodewise.results.queries import Tables, plain_training, with_labels


@claim_rule("keeps_accuracy")
def keeps_accuracy(tables: Tables, _: Tables, *, study: str, loss: float) -> pd.DataFrame:
    """The training accuracy is at most `loss` below that on one node after the same epochs.

    Of each model and number of nodes it is that at the batch which loses least, among those at
    which several nodes were faster than one. A restless machine does not matter, but too few cores.
    """
    rows = _trainings(tables)
    rows = rows[rows["study"] == study]
    crowded = rows["flags"].str.contains(OVERSUBSCRIBED, regex=False)
    several = rows[(rows["nodes"] > 1) & ~crowded & (rows["speedup"] > 1)]
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
    """The test accuracy is at most `loss` below that of another strategy on the same nodes."""
    rows = _trainings(tables)
    pair = beside(rows[rows["nodes"] > 1].dropna(subset="test_accuracy"), way, than)
    pair = pair[pair["epochs"] == pair["epochs_other"]]
    pair = evidence.check_accuracies(pair, tables, other="_other")
    return _compared(pair, "test", loss)


def _trainings(tables: Tables) -> pd.DataFrame:
    """Return the points of whole epochs, with their epochs and the errors of their accuracies.

    `train_error` and `test_error` are standard errors, NaN where a point was launched once.
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
    """Return comparisons of the accuracy `name` with that of the point beside it, as a ratio.

    `value` is the ratio, `low` and `high` its 90 % interval by Student's t over the launches, and
    `least` what it must exceed for an accuracy that is at most `loss` below the other.
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
