"""Select the rows that figures draw, so that each experiment is shown by the fitting chart."""

import pandas as pd

from nodewise.core.units import kind_label
from nodewise.predict import fit_queries
from nodewise.report import evidence
from nodewise.report.figures import _findings
from nodewise.results import queries

LINE = ("experiment", "model", "dataset", "line", "kind")
MODEL = tuple(queries.MODEL)
CURVE = tuple(fit_queries.CURVE)

_EXPERIMENT = ["experiment", "model", "dataset"]
_SHORT = 2
_MOST_ALIKE = 3  # most lines of one kind at one batch that readers can tell apart


def training_times(tables: queries.Tables) -> pd.DataFrame:
    """Return the training times to draw, without lines that would crowd the chart.

    If a model has more than `_MOST_ALIKE` lines of one kind at one batch, its experiments on at
    most two numbers of nodes are left out, unless none of our own lines would remain. Experiments
    that compare strategies have a chart of their own.
    """
    times = without_compared(tables["curves"], queries.training_times(tables))
    at = [*queries.MODEL, "kind", "batch_per_worker"]
    lines = times.drop_duplicates([*at, "cluster", "line", "experiment"]).groupby(at).size()
    many = lines[lines > _MOST_ALIKE].reset_index()[queries.MODEL].drop_duplicates()
    rest = _without(_short(tables), times)
    ours = rest.loc[rest["experiment"] != "", queries.MODEL].drop_duplicates()
    crowded = (
        times[queries.MODEL].merge(many.merge(ours), "left", indicator=True)["_merge"] == "both"
    )
    shown = times[~crowded.to_numpy() | times.index.isin(rest.index)]
    return _findings.with_certain(shown, tables)


def accuracies(tables: queries.Tables) -> pd.DataFrame:
    """Return the training accuracies to draw, without experiments that compare strategies.

    `accuracy_one` is the accuracy on one node. `lacks` says what the comparison of the two lacks to
    count as evidence.
    """
    rows = without_compared(tables["curves"], queries.accuracies(tables))
    at = [*queries.GROUP, "kind", "cluster", "machine", "line", "batch_per_worker"]
    one = rows.loc[rows["nodes"] == 1, [*at, "accuracy", "repeats", "cell_id"]]
    rows = rows.merge(one.drop_duplicates(at), "left", at, suffixes=("", "_one"))
    # published points do not state their launches
    known = rows.fillna({"repeats": 0, "repeats_one": 0})
    return rows.assign(lacks=evidence.check_accuracies(known, tables, other="_one")["lacks"])


def speedups(tables: queries.Tables) -> pd.DataFrame:
    """Return the speed-ups of experiments that no chart of strategies shows."""
    rows = without_compared(tables["curves"], queries.speedups(tables["curves"]))
    return _findings.with_certain(_without(_short(tables), rows), tables)


def step_parts(tables: queries.Tables) -> pd.DataFrame:
    """Return the parts of steps, without experiments on few numbers of nodes."""
    rows = _without(_short(tables), queries.step_parts(tables["curves"]))
    return evidence.check_times(rows, tables)


def predictions(tables: queries.Tables) -> pd.DataFrame:
    """Return predictions and trials, with their launches.

    `points_kind` is the kind of the points that the formula was fitted to.
    """
    rows = without_compared(tables["curves"], fit_queries.with_trials(tables))
    return _with_kind(fit_queries.with_launches(rows, tables["curves"]), tables)


def without_compared(curves: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` without experiments that have a chart that compares strategies."""
    return _without(queries.compared_strategies(curves)[_EXPERIMENT].drop_duplicates(), rows)


def _with_kind(rows: pd.DataFrame, tables: queries.Tables) -> pd.DataFrame:
    of_curve = tables["predictions"].drop_duplicates("curve", keep="last").set_index("curve")
    kinds = {
        curve: kind_label(source, origin)
        for curve, source, origin in of_curve[["source", "data_origin"]].itertuples()
    }
    return rows.assign(points_kind=rows["curve"].map(kinds))


def _short(tables: queries.Tables) -> pd.DataFrame:
    """Return the experiments on at most two numbers of nodes, of models that have longer ones."""
    curves = without_compared(tables["curves"], tables["curves"])
    counts = curves.groupby(_EXPERIMENT)["nodes"].nunique()
    most = counts.groupby(_EXPERIMENT[1:]).transform("max")
    return counts[(counts <= _SHORT) & (most > _SHORT)].reset_index()[_EXPERIMENT]


def _without(compared: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` without the combinations of experiment and model in `compared`."""
    at = ["experiment", "model"]
    known = rows.merge(compared[at].drop_duplicates().assign(known=True), "left", at)["known"]
    return rows[known.isna().to_numpy()]
