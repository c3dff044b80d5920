"""Rules about what a training learnt."""

import pandas as pd

from nodewise.report import evidence
from nodewise.report.claim_rules import POINT, beside, claim_rule
from nodewise.results.cell_rows import OVERSUBSCRIBED
from nodewise.results.columns import SINGLE
from nodewise.results.queries import Tables, with_labels


@claim_rule("keeps_accuracy")
def keeps_accuracy(tables: Tables, _: Tables, *, study: str, loss: float) -> pd.DataFrame:
    """The training accuracy is at most `loss` below that on one node after the same epochs.

    Of each model and number of nodes it is that at the batch which loses least, among those at
    which several nodes were faster than one. A restless machine does not matter, but too few cores.
    """
    rows = _trainings(tables)
    rows = rows[rows["study"] == study]
    one = rows[(rows["strategy"] == SINGLE) & (rows["nodes"] == 1)]
    crowded = rows["flags"].str.contains(OVERSUBSCRIBED, regex=False)
    several = rows[(rows["nodes"] > 1) & ~crowded & (rows["speedup"] > 1)]
    pair = several.merge(one, "inner", [*POINT, "epochs"], suffixes=("", "_other"))
    pair = pair.assign(epochs_other=pair["epochs"])
    pair = evidence.check_accuracies(pair, tables, other="_other")
    pair = pair.assign(
        change=pair["train_accuracy"] - pair["train_accuracy_other"], short=pair["lacks"] != ""
    )
    pair = pair.sort_values(["short", "change"], kind="stable", ascending=[True, False])
    best = pair.drop_duplicates(["experiment", "model", "strategy", "nodes"])
    return evidence.with_difference(best, "train", "_other", loss=loss).assign(
        label=best["accuracy_label"]
    )


@claim_rule("as_accurate")
def as_accurate(tables: Tables, _: Tables, *, way: str, than: str, loss: float) -> pd.DataFrame:
    """The test accuracy is at most `loss` below that of another strategy on the same nodes."""
    rows = _trainings(tables)
    pair = beside(rows[rows["nodes"] > 1].dropna(subset="test_accuracy"), way, than)
    pair = pair[pair["epochs"] == pair["epochs_other"]]
    pair = evidence.check_accuracies(pair, tables, other="_other")
    return evidence.with_difference(pair, "test", "_other", loss=loss).assign(
        label=pair["accuracy_label"]
    )


def _trainings(tables: Tables) -> pd.DataFrame:
    """Return the points of whole epochs, with their epochs and the errors of their accuracies."""
    curves = with_labels(tables["curves"][tables["curves"]["whole_epochs"]])
    return evidence.with_accuracy_errors(curves, tables["cells"])
