"""The rows that several figures draw: which lines share a chart, and which have their own."""

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
_MOST_ALIKE = 3  # lines of one kind at one batch, which can still be told apart


def training_times(tables: queries.Tables) -> pd.DataFrame:
    """Return training times of no more lines than can be told apart, if others show the rest.

    Where a model has more of a kind at one batch, those of experiments on two numbers of nodes are
    left to the chart of settings, if any of ours remain.
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
    """Return training accuracies, without experiments that another chart compares.

    `accuracy_one` is the one on one node, and `lacks` what the two of them need to count.
    """
    rows = without_compared(tables["curves"], queries.accuracies(tables))
    at = [*queries.GROUP, "kind", "cluster", "machine", "line", "batch_per_worker"]
    one = rows.loc[rows["nodes"] == 1, [*at, "accuracy", "repeats", "cell_id"]]
    rows = rows.merge(one.drop_duplicates(at), "left", at, suffixes=("", "_one"))
    # nobody knows the launches of what is published
    known = rows.fillna({"repeats": 0, "repeats_one": 0})
    return rows.assign(lacks=evidence.check_accuracies(known, tables, other="_one")["lacks"])


def speedups(tables: queries.Tables) -> pd.DataFrame:
    """Return the speed-ups of experiments that no other chart compares."""
    rows = without_compared(tables["curves"], queries.speedups(tables["curves"]))
    return _findings.with_certain(_without(_short(tables), rows), tables)


def step_parts(tables: queries.Tables) -> pd.DataFrame:
    """Return the parts of steps, but for experiments that the chart of settings compares."""
    rows = _without(_short(tables), queries.step_parts(tables["curves"]))
    return evidence.check_times(rows, tables)


def predictions(tables: queries.Tables) -> pd.DataFrame:
    """Return predictions and trials with launches, and the label of the points as `points_kind`."""
    rows = without_compared(tables["curves"], fit_queries.with_trials(tables))
    return _with_kind(fit_queries.with_launches(rows, tables["curves"]), tables)


def link_rates(tables: queries.Tables) -> pd.DataFrame:
    """Return step times by the rate of the link, with cautions and `points_kind`."""
    rates = fit_queries.link_rates(without_compared(tables["curves"], tables["rates"]))
    return _with_kind(fit_queries.with_flags(rates, tables["curves"]), tables)


def without_compared(curves: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` without experiments whose strategies are compared on a chart of their own."""
    return _without(queries.compared_strategies(curves)[_EXPERIMENT].drop_duplicates(), rows)


def _with_kind(rows: pd.DataFrame, tables: queries.Tables) -> pd.DataFrame:
    of_curve = tables["predictions"].drop_duplicates("curve", keep="last").set_index("curve")
    kinds = {
        curve: kind_label(source, origin)
        for curve, source, origin in of_curve[["source", "data_origin"]].itertuples()
    }
    return rows.assign(points_kind=rows["curve"].map(kinds))


def _short(tables: queries.Tables) -> pd.DataFrame:
    """Return the experiments on two numbers of nodes at most that the chart of settings has."""
    counts = tables["curves"].groupby(_EXPERIMENT)["nodes"].nunique()
    short = counts[counts <= 2].reset_index()[_EXPERIMENT]
    return short.merge(queries.settings(tables)[_EXPERIMENT].drop_duplicates())


def _without(compared: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` without those of the experiments and models in `compared`."""
    at = ["experiment", "model"]
    known = rows.merge(compared[at].drop_duplicates().assign(known=True), "left", at)["known"]
    return rows[known.isna().to_numpy()]
