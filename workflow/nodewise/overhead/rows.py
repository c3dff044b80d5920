"""The rows of the tables of results: numbers of fits and trials, and notes on them in words."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from nodewise.overhead.bandwidth import SharedBandwidth
from nodewise.overhead.fit import Fit
from nodewise.overhead.formulas import Floats, Mask, RingAllReduce
from nodewise.overhead.groups import Group
from nodewise.overhead.judge import Trial, relative_error

ALL_POINTS = "all points"
OVERSUBSCRIBED = "oversubscribed, not fitted"
NODES = range(1, 11)

_SHOWN = ("compute_fixed_s", "compute_per_example_s", "latency_s", "bandwidth_bytes_per_s")
_NAMES = {
    "curve": "str",
    "source": "str",
    "study": "str",
    "experiment": "str",
    "model": "str",
    "strategy": "str",
}
FITS = {
    **_NAMES,
    "cluster": "str",
    "data_origin": "str",
    "batch_per_worker": "Int64",
    "law": "str",
    **{f"{name}{end}": "float64" for name in _SHOWN for end in ("", "_low", "_high")},
    "points": "int64",
    "note": "str",
}
PREDICTIONS = {
    **_NAMES,
    "batch_per_worker": "int64",
    "nodes": "int64",
    "observed_s": "float64",
    "fitted_s": "float64",
    "low_s": "float64",
    "high_s": "float64",
    "held_out": "bool",
    "error": "float64",
    "scenario": "str",
}
_FIXED = {
    "latency_s": "latency fixed at 0, as the points cannot tell it from bandwidth: "
    "times on more nodes than these are the least that fit",
    "compute_fixed_s": "one batch: its compute is all counted per example",
}
_WORDS = {"latency_s": "latency", "seconds_per_byte": "bandwidth"}


def fit_row(group: Group, fitted: Fit, intervals: str) -> dict[str, Any]:
    """Return the row of `fits`: a fit of the ring law, with a note that ends in `intervals`."""
    batches = np.unique(group.batch[group.fitted])
    low, high = fitted.coefficient_interval()
    triples = zip(fitted.values, low, high, strict=True)
    ends = dict(zip(fitted.law.coefficients(), triples, strict=True))
    value, below, above = ends.pop("seconds_per_byte")
    ends["bandwidth_bytes_per_s"] = (_inverse(value), _inverse(above), _inverse(below))
    notes = [*_notes(group, fitted), "bandwidth has no upper end" if 0 in (value, below) else ""]
    row: dict[str, Any] = {
        "batch_per_worker": int(batches[0]) if len(batches) == 1 else None,
        "law": fitted.law.name,
        "points": int(group.fitted.sum()),
        "note": "; ".join(filter(None, [*notes, intervals])),
    }
    for name, of_name in ends.items():
        row |= _with_ends(name, *of_name)
    return group.about | row


def _with_ends(name: str, value: float, low: float, high: float) -> dict[str, float]:
    return {name: value, f"{name}_low": low, f"{name}_high": high}


def _inverse(value: float) -> float:
    """Return 1/value; NaN for 0, as no table can hold an endless bandwidth."""
    return 1 / value if value > 0 else np.nan


def _notes(group: Group, fitted: Fit) -> list[str]:
    """Return what was left out, borrowed, fixed or cannot be known, in words."""
    notes = []
    untimed = int((~group.timed).sum())
    crowded = int((group.timed & group.oversubscribed).sum())
    if untimed:
        notes.append(f"points without step time or payload left out: {untimed}")
    if crowded:
        notes.append(f"oversubscribed points not fitted: {crowded}")
    if group.borrowed:
        notes.append("one node: strategy single")
    notes += [_FIXED[name] for name in fitted.fixed]
    return [*notes, _unknown_note(group, fitted)]


def _unknown_note(group: Group, fitted: Fit) -> str:
    if not group.fitted.any():
        return "nothing to fit"
    if not fitted.free.any():
        return "compute and communication cannot be told apart"
    if fitted.unknown:
        return f"nothing known of {' and '.join(_WORDS[name] for name in fitted.unknown)}"
    return ""


def prediction_rows(group: Group, fitted: Fit) -> list[dict[str, Any]]:
    """Return the rows of the fit itself, and those of the oversubscribed points beside it."""
    rows = []
    for batch in np.unique(group.batch[group.timed]):
        mine = group.timed & (group.batch == batch)
        nodes = np.union1d(np.array(NODES, dtype=float), group.nodes[mine])
        payload = np.full_like(nodes, np.median(group.payload[mine]))
        observed = _observed(group, mine & group.fitted, nodes)
        crowded = _observed(group, mine & group.oversubscribed, nodes)
        batches = np.full_like(nodes, batch)
        times = fitted.evaluate(nodes, batches, payload)
        low, high = fitted.evaluate_interval(nodes, batches, payload)
        about = group.about | {"batch_per_worker": int(batch)}
        for i, n in enumerate(nodes):
            ends = {"fitted_s": times[i], "low_s": low[i], "high_s": high[i]}
            rows.append(about | _prediction(n, observed[i], ALL_POINTS, ends, held_out=False))
            if np.isfinite(crowded[i]):
                rows.append(about | _prediction(n, crowded[i], OVERSUBSCRIBED, ends, held_out=True))
    return rows


def _observed(group: Group, mask: Mask, nodes: Floats) -> Floats:
    """Return the step time at each of `nodes` in the rows that `mask` picks; NaN where none is."""
    times = dict(zip(group.nodes[mask], group.step_s[mask], strict=True))
    return np.array([times.get(n, np.nan) for n in nodes])


def _prediction(
    nodes: float, observed_s: float, scenario: str, times: dict[str, float], *, held_out: bool
) -> dict[str, Any]:
    return {
        "nodes": int(nodes),
        "observed_s": observed_s,
        **times,
        "held_out": held_out,
        "error": relative_error(times["fitted_s"], observed_s),
        "scenario": scenario,
    }


def trial_rows(trials: Iterable[Trial]) -> list[dict[str, Any]]:
    """Return the trials of the ring law; the other laws are only judged."""
    return [
        trial.about
        | {"batch_per_worker": int(batch)}
        | _prediction(n, observed, trial.scenario, {"fitted_s": fitted}, held_out=trial.held_out)
        for trial in trials
        if trial.law == RingAllReduce.name
        for batch, n, observed, fitted in zip(
            trial.batch, trial.nodes, trial.observed_s, trial.fitted_s, strict=True
        )
    ]


def bandwidth_row(study: str, shared: SharedBandwidth) -> dict[str, Any]:
    """Return the row of `fits` for one bandwidth of a whole published study."""
    note = (
        "one bandwidth for the whole table, by the least mean absolute log error; "
        "compute is the observed one-node step; latency fixed at 0"
    )
    if np.isfinite(shared.low):
        note += f"; 90 % interval from draws of the {shared.curves} curves"
    return {
        **dict.fromkeys(FITS, None),
        **dict.fromkeys((name for name, dtype in FITS.items() if dtype == "str"), ""),
        **_with_ends("bandwidth_bytes_per_s", shared.bandwidth, shared.low, shared.high),
        "curve": f"{study} (published): one bandwidth",
        "source": "published",
        "study": study,
        "latency_s": 0.0,
        "law": RingAllReduce.name,
        "points": shared.points,
        "note": note,
    }
