"""Tables in, tables out: the overhead of every strategy that was measured, or published.

Curves over one link are fitted together; see `curve_groups`. Laws are chosen by what ran, and
where that leaves several, by what they foretell; see `choose_law`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nodewise.predict import (
    bottleneck,
    choose_law,
    judge,
    link_rates,
    objectives,
    published_bandwidth,
    savings,
    steps_to_accuracy,
)
from nodewise.predict import calibration as of_calibration
from nodewise.predict.curve_groups import ABOUT, CurveGroup, find_groups, published_curves
from nodewise.predict.fit import DRAWS, Fit, Priors, fit
from nodewise.predict.judge import TRIALS, relative_error
from nodewise.predict.law import At, Law, PartsLaw
from nodewise.results.calibration import Calibration
from nodewise.results.tables import typed, write_csv

ALL_POINTS = "all points"
OVERSUBSCRIBED = "oversubscribed, not fitted"
POORLY = "poorly constrained by the data"
UNTIMED = "points without step time or payload left out"
CROWDED = "oversubscribed points not fitted"
NODES = (*range(1, 11), 12, 16, 24, 32, 48, 64)
_NOTHING_S = 1e-9  # for an example: less than a clock tells
_TAILS_APART = 3.29  # standard deviations from end to end of a 90 % interval

FITS = {
    "source": "str",
    "data_origin": "str",
    "study": "str",
    "experiment": "str",
    "link": "str",
    "curve": "str",
    "model": "str",
    "strategy": "str",
    "batch_per_worker": "Int64",
    "law": "str",
    "settings": "str",
    "parameter": "str",
    "meaning": "str",
    "unit": "str",
    "value": "float64",
    "low": "float64",
    "high": "float64",
    "points": "int64",
    "noise": "float64",
    "note": "str",
}
PREDICTIONS = {
    "source": "str",
    "data_origin": "str",
    **dict.fromkeys(ABOUT, "str"),
    "batch_per_worker": "int64",
    "payload_bytes": "float64",
    "nodes": "int64",
    "law": "str",
    "scenario": "str",
    "observed_s": "float64",
    "fitted_s": "float64",
    "low_s": "float64",
    "high_s": "float64",
    **{f"{part}_s": "float64" for part in bottleneck.BOUND},
    "error": "float64",
    "beyond": "bool",
}
CHOICES = {
    "source": "str",
    "data_origin": "str",
    "link": "str",
    "strategy": "str",
    "law": "str",
    "settings": "str",
    "title": "str",
    "error": "float64",
    "chosen": "bool",
}
FITTED = {
    "choices": CHOICES,
    "fits": FITS,
    "predictions": PREDICTIONS,
    "diagnosis": bottleneck.DIAGNOSIS,
    "optima": objectives.OPTIMA,
    "rates": link_rates.RATES,
    "savings": savings.SAVINGS,
    "steps_to_accuracy": steps_to_accuracy.STEPS,
}
JUDGED = {"trials": TRIALS, "judgement": judge.JUDGEMENT}
OVERHEAD = FITTED | JUDGED


@dataclass(frozen=True)
class StudyFit:
    """What a study's curves were fitted to: per group the choice of its law, and the fit.

    `ours` and `theirs` are all groups, of measured and of published curves, with the laws of what
    ran; `fitted` are those with points to fit, with the laws that were chosen.
    """

    ours: list[CurveGroup]
    theirs: list[CurveGroup]
    fitted: list[tuple[CurveGroup, choose_law.Choice, Fit]]


def fit_curves(
    curves: pd.DataFrame,
    cells: pd.DataFrame,
    published: pd.DataFrame,
    calibrations: Iterable[Calibration] = (),
    *,
    draws: int = DRAWS,
) -> StudyFit:
    """Fit all curves of a study; the same input gives the same fits.

    Args:
        curves: one row per batch and nodes, with its median step time (`results.tables`).
        cells: one row per launch, for the noise; may be empty.
        published: the published step times; may be empty.
        calibrations: what is known of latency and bandwidth of clusters beforehand.
        draws: how many equally likely coefficients the intervals come from.

    Raises:
        UserError: a table lacks a column.
    """
    ours = list(find_groups(curves, cells))
    theirs = list(find_groups(published_curves(published), cells))
    done = []
    learned: dict[tuple[str, str], Priors] = {}
    for ran, known in _with_priors(ours, theirs, calibrations):
        priors = learned.get((ran.link, ran.law.name), known)
        chosen = choose_law.choose(choose_law.alternatives(ran.law), ran.fitted.points(), priors)
        group = replace(ran, law=chosen.law)
        fitted = fit(group.law, group.fitted.points(), priors=priors, draws=draws)
        learned.setdefault((ran.link, ran.law.name), learned_priors(group, fitted))
        done.append((group, chosen, fitted))
    return StudyFit(ours, theirs, done)


def fit_study(
    curves: pd.DataFrame,
    cells: pd.DataFrame,
    published: pd.DataFrame,
    calibrations: Iterable[Calibration] = (),
    *,
    steps: Sequence[steps_to_accuracy.Known] = (),
    draws: int = DRAWS,
) -> dict[str, pd.DataFrame]:
    """Return the tables of `FITTED`; see `fit_curves` and `fitted_tables`."""
    found = fit_curves(curves, cells, published, calibrations, draws=draws)
    return fitted_tables(found, steps, draws)


def fitted_tables(
    found: StudyFit, steps: Sequence[steps_to_accuracy.Known] = (), draws: int = DRAWS
) -> dict[str, pd.DataFrame]:
    """Return the tables of `FITTED`.

    Predictions are for `NODES`, and those observed beside them, at each batch that was timed;
    `beyond` tells those on more nodes than any point that was fitted.

    Args:
        found: the fits of a study.
        steps: what is known of steps to an accuracy, of a key the best known last.
        draws: how many equally likely coefficients the intervals of published bandwidths come from.
    """
    laws = {known.key: known.law for known in steps if known.law is not None}
    measured = pd.concat([group.rows for group in found.ours]) if found.ours else pd.DataFrame()
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in FITTED}
    for group, chosen, fitted in found.fitted:
        rows["choices"] += choice_rows(group, chosen)
        rows["fits"] += fit_rows(group, fitted)
        rows["predictions"] += prediction_rows(group, fitted)
        rows["diagnosis"] += diagnosis_rows(group, fitted)
        told = objectives.tellable(group, fitted)
        rows["optima"] += objectives.optima_rows(told, fitted, laws, NODES)
        rows["rates"] += link_rates.rate_rows(told, fitted, measured)
        rows["savings"] += savings.saving_rows(group, fitted)
    rows["steps_to_accuracy"] = [steps_to_accuracy.steps_row(known) for known in steps]
    for group in found.theirs:
        rows["fits"] += published_bandwidth.fit_rows(group, draws)
    return {name: typed(rows[name], FITTED[name]) for name in FITTED}


def judge_study(
    curves: pd.DataFrame,
    cells: pd.DataFrame,
    published: pd.DataFrame,
    calibrations: Iterable[Calibration] = (),
    *,
    draws: int = DRAWS,
) -> dict[str, pd.DataFrame]:
    """Return the tables of `JUDGED`: what the same fits say of points that are left out of them.

    Arguments and errors are those of `fit_curves`. No fit sees what another group tells of its
    link.
    """
    ours = list(find_groups(curves, cells))
    theirs = list(find_groups(published_curves(published), cells))
    rows: list[dict[str, Any]] = []
    for group, known in _with_priors(ours, theirs, calibrations):
        rows += judge.try_held_out(group, known, draws)
    for group in theirs:
        rows += published_bandwidth.trial_rows(group)
    trials = typed(rows, TRIALS)
    return {"trials": trials, "judgement": judge.judge(trials)}


def _with_priors(
    ours: Iterable[CurveGroup], theirs: Iterable[CurveGroup], calibrations: Iterable[Calibration]
) -> Iterator[tuple[CurveGroup, Priors]]:
    """Yield the groups with points to fit, in the order of fitting, and what calibrations tell."""
    examined = (
        ((one.cluster.label, one.provenance.cpu), of_calibration.examine(one).all_reduces)
        for one in calibrations
        if one.status == "ok"
    )
    calibrated = {at: found["ring"].coefficients for at, found in examined if "ring" in found}
    for group in [*_richest_first(ours), *_richest_first(theirs)]:
        if group.rows["fitted"].any():
            yield group, known_priors(group, calibrated)


def write(tables: dict[str, pd.DataFrame], out_dir: Path) -> None:
    """Write each table as `NAME.csv`, each in one atomic step."""
    for name, table in tables.items():
        write_csv(table, out_dir / f"{name}.csv")


def known_priors(group: CurveGroup, calibrated: Mapping[tuple[str, str], pd.DataFrame]) -> Priors:
    """Return what is known beforehand of the link: of rings, servers, pipelines on emulated nodes.

    Rings borrow from what a calibration told of TensorFlow's. A step's all-reduce is not quite the
    calibration's: bandwidth is taken for known within a tenth, and as messages hide behind bytes,
    latency for somewhere between nothing and the calibrated one.

    Servers have all bytes pass one link, which few workers do not fill yet: they do not show what
    it bears. It is taken for the configured rate less headers, within a tenth; so is that of
    pipelines, of which a cut is crossed by one message at a time.

    Args:
        group: curves over one link.
        calibrated: α and β (`calibration.COEFFICIENTS`) by the label of a cluster, and machine.
    """
    priors = of_input(group)
    cluster, machine = group.rows.iloc[0][["cluster", "machine"]]
    if group.law.name in ("server", "gpipe") and (link := link_rates.link_of(cluster)) is not None:
        beta = link.seconds_per_byte
        priors["seconds_per_byte", group.link] = (beta, beta / 10)
    if group.law.name != "ring" or (cluster, machine) not in calibrated:
        return priors
    found = calibrated[cluster, machine]
    own = found[found["clock"] == of_calibration.OWN_TIME].iloc[0]
    if own["latency_s"] > 0:
        priors["latency_s", group.link] = (own["latency_s"] / 2, own["latency_s"] / 2)
    if own["bandwidth_bytes_per_s"] > 0:
        beta = 1 / own["bandwidth_bytes_per_s"]
        priors["seconds_per_byte", group.link] = (beta, beta / 10)
    return priors


def of_input(group: CurveGroup) -> dict[tuple[str, str], tuple[float, float]]:
    """Return that a node spends nothing on examples of others: of curves whose input is sharded."""
    sharded = group.rows[group.rows["pipeline"] == "sharded"]
    return {
        ("input_per_example_s", curve): (0.0, _NOTHING_S) for curve in sharded["curve"].unique()
    }


def learned_priors(group: CurveGroup, fitted: Fit) -> Priors:
    """Return what a fit tells of its link, within a tenth at best, for other fits of that link.

    Curves of one link have fits of their own where their laws take different things for known, such
    as the bytes of an activation; latency and bandwidth are the link's all the same.
    """
    found: dict[tuple[str, str], tuple[float, float]] = {}
    for name in ("latency_s", "seconds_per_byte"):
        value, (low, high) = fitted.value(name, group.link), fitted.interval(name, group.link)
        spread = float(np.hypot((high - low) / _TAILS_APART, value / 10))
        if spread > 0:  # false of NaN: the law has none, or there are no draws
            found[name, group.link] = (value, spread)
    return found


def _richest_first(groups: Iterable[CurveGroup]) -> list[CurveGroup]:
    """Return groups by link and law, of each the one with the most points first."""
    return sorted(
        groups, key=lambda group: (group.link, group.law.name, -group.rows["fitted"].sum())
    )


def choice_rows(group: CurveGroup, chosen: choose_law.Choice) -> list[dict[str, Any]]:
    """Return rows of `CHOICES`: one for each law that may be, if its points tell them apart."""
    first = group.rows.iloc[0]
    return [
        {
            "source": first["kind"],
            "data_origin": first["data_origin"],
            "link": group.link,
            "strategy": first["strategy"],
            "law": law.name,
            "settings": law_settings(law),
            "title": choose_law.named(law),
            "error": error,
            "chosen": law == chosen.law,
        }
        for law, error in zip(chosen.laws, chosen.errors, strict=False)
    ]


def fit_rows(group: CurveGroup, fitted: Fit) -> list[dict[str, Any]]:
    """Return rows of `FITS`: one for each coefficient."""
    parameters = {p.name: p for p in group.law.parameters}
    named = group.rows.drop_duplicates("curve").set_index("curve")
    first = group.rows.iloc[0]
    rows = []
    for name, label in fitted.coefficients:
        curve, *_, batch = label.split("|") if "|" in label else (label, "")
        of = named.loc[curve] if curve in named.index else None
        low, high = fitted.interval(name, label)
        rows.append(
            {
                "source": first["kind"],
                "data_origin": first["data_origin"],
                "study": first["study"] if of is None else of["study"],
                "experiment": of["experiment"] if of is not None else "",
                "link": group.link,
                "curve": curve if of is not None else "",
                "model": of["model"] if of is not None else "",
                "strategy": first["strategy"],
                "batch_per_worker": int(batch) if batch else None,
                "law": group.law.name,
                "settings": law_settings(group.law),
                "parameter": name,
                "meaning": parameters[name].meaning,
                "unit": parameters[name].unit,
                "value": fitted.value(name, label),
                "low": low,
                "high": high,
                "points": len(fitted.points),
                "noise": fitted.noise,
                "note": _note(group, fitted, name, label),
            }
        )
    return rows


def law_settings(law: Law) -> str:
    """Return the fields of a law, what is known of its structure, as JSON."""
    return json.dumps(vars(law))


def _note(group: CurveGroup, fitted: Fit, name: str, label: str) -> str:
    """Return in words what the points do not tell, and what was left out."""
    notes = [] if fitted.identified(name, label) else [POORLY]
    untimed = int((~group.rows["timed"]).sum())
    crowded = int((group.rows["timed"] & ~group.rows["fitted"]).sum())
    if untimed:
        notes.append(f"{UNTIMED}: {untimed}")
    if crowded:
        notes.append(f"{CROWDED}: {crowded}")
    return "; ".join(notes)


def prediction_rows(group: CurveGroup, fitted: Fit) -> list[dict[str, Any]]:
    """Return the rows of the fit itself, and those of the oversubscribed points beside it."""
    rows: list[dict[str, Any]] = []
    lines = group.rows[group.rows["timed"]].groupby(["curve", "batch_per_worker"])
    for _, line in lines:
        batch = int(line["batch_per_worker"].iloc[0])
        known = line[line["fitted"]].set_index("nodes")["step_time_s"]
        crowded = line[~line["fitted"]].set_index("nodes")["step_time_s"]
        nodes = np.union1d(np.array(NODES, float), line["nodes"].to_numpy(float))
        payload = float(line["payload_bytes"].median())
        at = At.of(nodes, batch, payload)
        about = group.about(line.iloc[0]) | {"batch_per_worker": batch, "payload_bytes": payload}
        table = _asked(group, fitted, at, str(about["curve"]))
        table["beyond"] = ~(table["nodes"] <= (known.index.max() if len(known) else 0))
        for scenario, observed in ((ALL_POINTS, known), (OVERSUBSCRIBED, crowded)):
            told = table.assign(observed_s=table["nodes"].map(observed), scenario=scenario)
            if scenario == OVERSUBSCRIBED:
                told = told.dropna(subset="observed_s")
            told["error"] = relative_error(told["fitted_s"], told["observed_s"])
            rows += [
                about | dict(zip(map(str, told), row, strict=True)) for row in told.to_numpy(object)
            ]
    return rows


def _asked(group: CurveGroup, fitted: Fit, at: At, curve: str) -> pd.DataFrame:
    low, high = np.full((2, *at.nodes.shape), np.nan)
    if len(fitted.draws):
        low, high = fitted.evaluate_interval(at, curve, group.link)
    times = {
        "nodes": at.nodes.astype(int),
        "fitted_s": fitted.evaluate(at, curve, group.link),
        "low_s": low,
        "high_s": high,
    }
    parts = _parts(group, fitted, at, curve)
    return pd.DataFrame(times | {f"{name}_s": part for name, part in parts.items()})


def _parts(group: CurveGroup, fitted: Fit, at: At, curve: str) -> dict[str, Any]:
    if not isinstance(group.law, PartsLaw):
        return dict.fromkeys(bottleneck.BOUND, np.nan)
    return dict(bottleneck.law_parts(fitted, at, curve, group.link))


def diagnosis_rows(group: CurveGroup, fitted: Fit) -> list[dict[str, Any]]:
    """Return rows of `diagnose.DIAGNOSIS` for the points that were fitted."""
    points = group.fitted.points(parts=False)
    parts = bottleneck.law_parts(fitted, points.at, points.model, points.link)
    return bottleneck.diagnose(group.fitted.rows, parts, group.law)
