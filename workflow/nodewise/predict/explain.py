"""Why training on many devices is not faster: which cause, what would decide it, what helps.

Each cause predicts the measured numbers by the draws of `causes.Slowdown`. A draw counts by how
well it meets them, times how frequent its cause is. The largest part of the extra time in a draw is
its cause, so the weights of the draws are the probabilities of the causes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nodewise.core.units import write_percent
from nodewise.predict import causes as c
from nodewise.predict.cluster_steps import draw_weights
from nodewise.predict.points import Floats
from nodewise.results.posted_numbers import UNITS

MEASUREMENTS: Mapping[str, str] = c.DECLARED["measurements"]
"""Measurements that show causes: what to do."""
_CONTROLS: Mapping[str, Mapping[str, float]] = c.DECLARED["controls"]
_CERTAIN = 0.9  # the probability from which on a cause is
_INPUT_DOMINATES = 0.5  # of a step
_MOST_EFFICIENT = 1.2  # caches and faster kernels of larger batches explain no more
_CHECK_UNITS = "Check the units: examples or steps, in total or per device; and a device's batch."
_LEAST_LIKELY, _LEAST_GAIN = 0.05, 1.03  # of the remedies that are listed


def explain(case: c.Slowdown) -> dict[str, Any]:
    """Return why the last number of devices is not faster: the keys that the command's help lists.

    Scaling is `normal` if it is as good as can be expected; if steps were timed, only if each
    device has a batch of its own. `decided` says whether this or the first cause is certain: else
    `measure` is the measurement that would decide. Remedies are for a cause (or None), which is
    `likely`, and have the value that the last number would have if that is the cause. Far below the
    link's rate, `implied_gbyte_per_s` means that another link is in use. A measured share of
    waiting for input that is most of the last number's step is the cause.
    """
    share = case.training.input_share
    about: dict[str, Any] = {
        "input_share": share,
        "read": _read(case),
        "implied_gbyte_per_s": implied_rate(case),
        "efficiency": case.efficiency,
    }
    if share is not None and share >= _INPUT_DOMINATES:
        cause = {"name": c.INPUT, "probability": 1.0, "share": share, "low": share, "high": share}
        shown = f"{write_percent(share)} of a step is waiting for the next batch, as measured."
        about |= {"causes": [cause], "decided": True, "normal": False, "measure": None}
        return about | {"remedies": [], "sentence": f"The cause is: {c.INPUT} (100 %). {shown}"}
    one, many = case.parts(case.first.devices, reference=True), case.parts(case.last.devices)
    weights = _weights(case, one)
    extra = np.maximum(0, many - one)[1:].reshape(len(c.CAUSES), -1)
    causes, remedies = [*_causes(extra, weights.ravel())], _remedies(case, many, weights)
    possible = case.efficiency <= _MOST_EFFICIENT
    efficient = possible and case.efficiency >= c.NORMAL
    normal = efficient and case.examples_known and not case.same_devices
    measure = _deciding(case, causes, normal) if possible else _CHECK_UNITS
    likely = [f"{row['name']} ({write_percent(row['probability'])})" for row in causes[:2]]
    if normal:
        unsure = f", if each device has a batch of its own. To be sure: {measure}"
        good = f"scaling is normal, with an efficiency of {write_percent(case.efficiency)}"
        sentence = f"Nothing is wrong: {good}{unsure if measure else '.'}"
    elif not possible:
        sentence = f"The numbers do not fit: more than each device can do alone. {_CHECK_UNITS}"
    elif measure:
        sentence = f"The numbers do not decide: {' or '.join(likely)}. {measure}"
    else:
        helps = [row["name"] for row in remedies if row["for"] in (None, causes[0]["name"])]
        best = f" What helps most: {helps[0]}." if helps else ""
        sentence = f"The cause is: {likely[0]}.{best}"
    return about | {
        "causes": causes if possible and (measure or not normal) else [],
        "decided": measure is None,
        "normal": normal,
        "measure": measure,
        "remedies": remedies if possible and not normal else [],
        "sentence": sentence,
    }


def _weights(case: c.Slowdown, one: Floats) -> Floats:
    """Return the probabilities of draws, (possible causes, draws), with parts of the reference."""
    measured = [("", posted) for posted in case.posted[1:]] + [*case.controls.items()]
    misses = []
    for control, run in measured:
        step_s = c.total(case.parts(run.devices), _CONTROLS.get(control))
        misses.append(np.log(step_s / c.total(one) / case.measured(run)))
    prior = np.array([*case.frequent.values()])[:, None]
    return draw_weights(np.swapaxes(misses, 0, 1), prior)


def _causes(extra: Floats, weights: Floats) -> Iterator[dict[str, Any]]:
    """Yield the causes, most likely first, from extra seconds, (causes of `CAUSES`, draws)."""
    shares = extra / np.maximum(extra.sum(axis=0), 1e-12)
    likely = np.bincount(shares.argmax(axis=0), weights, len(c.CAUSES)).tolist()
    rows = zip(c.CAUSES, shares, likely, strict=True)
    for name, share, probability in sorted(rows, key=lambda row: -row[2]):
        if share.any():
            low, high = _quantile(share, weights, (0.05, 0.95))
            mean = float(share @ weights)  # of a rare cause, it is above the interval
            about = {"name": name, "probability": probability, "share": mean}
            yield about | {"low": min(low, mean), "high": max(high, mean)}


def _deciding(case: c.Slowdown, causes: Sequence[Mapping[str, Any]], normal: bool) -> str | None:
    """Return the measurement that tells the likeliest cause from the next; None if that is known.

    On the same devices, numbers show busy cores at most. Between nodes, the link must be known.
    """
    first, certain = causes[0]["name"], causes[0]["probability"] >= _CERTAIN
    link_unknown = case.across and not case.link_told and first in (c.BYTES, c.LINK)
    telling = not case.same_devices or (case.cores is not None and first == c.CORES)
    if not case.first.times_steps if normal else certain and telling and not link_unknown:
        return None
    if link_unknown:
        return MEASUREMENTS["link"]
    likely = [c.CAUSES[one["name"]]["of"] for one in causes[:2]]
    done = {
        # A run that lacks both of the likeliest causes, or none, does not tell them apart.
        **{name: sum(of in kinds for of in likely) != 1 for name, kinds in _CONTROLS.items()},
        **dict.fromkeys(case.controls, True),
        "link": case.link_measured,
        "sums": case.servers is not None,
        "payload": case.training.parameters is not None,
        "cores": case.cores is not None,
        "third": len(case.posted) > 2,
        "node": case.first.devices > 1 or case.layout(case.posted[1].devices)[1] == 1,
    }
    (best, *more), *others = [c.CAUSES[cause["name"]]["measure"] for cause in causes]
    wanted: list[str] = [best, *others[0], *more, *(name for each in others for name in each)]
    if case.same_devices:
        wanted.insert(0, "cores")
    return MEASUREMENTS[next(name for name in wanted if not done.get(name))]


def _remedies(case: c.Slowdown, many: Floats, weights: Floats) -> list[dict[str, Any]]:
    """Return the remedies that bring something, the best first.

    `many` are the parts of the step in question, (parts, possible causes, draws).
    """
    last, count, possible = case.last, case.last.devices, [*case.frequent]
    inside, nodes = case.layout(count)
    tried: list[tuple[str, str | None, Floats, int]] = [
        (name, None, c.total(many, factors), count)
        for name, factors in c.DECLARED["remedies"].items()
        if name != "gradients in 16 bits" or case.training.bytes_each == (4.0,)
    ]
    if nodes > 1 and inside > 1:
        after = c.total(case.parts(inside, reference=inside == case.first.devices))
        tried.append((f"only the {inside} devices of one node", None, after, inside))
    without = c.total(case.parts(count, usual=True))
    curable = [x for x in possible if "remedy" in c.CAUSES[x]]
    tried += [(c.CAUSES[x]["remedy"], x, without, count) for x in curable]
    found = []
    for name, cause, after, devices in tried:
        chosen = slice(None) if cause is None else possible.index(cause)
        share = weights[chosen].ravel()
        more = devices * case.examples(devices) / count / case.examples(count)
        gains = (c.total(many) / after * more)[chosen].ravel()
        if share.sum() < _LEAST_LIKELY:
            continue
        gain, *ends = _quantile(gains, share, (0.5, 0.05, 0.95))
        value, *ends = (last.value * (x if last.rises else 1 / x) for x in (gain, *ends))
        if gain > _LEAST_GAIN:
            about = {"name": name, "for": cause, "likely": float(share.sum()), "gain": gain}
            about |= {"unit": UNITS[last.clock], "value": value}
            found.append(about | {"low": min(ends), "high": max(ends)})
    return sorted(found, key=lambda row: -row["likely"] * (row["gain"] - 1))


def implied_rate(case: c.Slowdown) -> float | None:
    """Return the bytes of the exchange over the extra time, in GB/s; None if unknown."""
    first, last, training = case.first, case.last, case.training
    timed = first.times_steps or (first.clock == "samples_per_s" and training.batch)
    if not training.parameters or not timed or last.devices == 1:
        return None
    step_s = first.devices * (training.batch or 1.0) / first.value if first.rises else first.value
    extra_s = step_s * (case.measured(last) - case.examples(last.devices))
    ring = 2 * (1 - 1 / case.layout(last.devices)[int(case.across)])
    gbyte = ring * training.parameters * training.bytes_each[-1] / 1e9
    return gbyte / extra_s if extra_s > 0 else None


def _read(case: c.Slowdown) -> list[str]:
    read = [*map(str, case.posted), *(f"{name}: {one}" for name, one in case.controls.items())]
    unknown = case.training.batch is None and not case.training.strong
    if unknown and case.first.devices < case.last.devices:
        read.append("assumed: the same batch on each device")
    if case.first.times_steps and case.first.devices < case.last.devices:
        gain = case.efficiency * case.last.devices / case.first.devices
        read.append(f"a step of {case.last.devices} devices has {gain:.2f} times the examples/s")
    return read


def _quantile(values: Floats, weights: Floats, shares: tuple[float, ...]) -> list[float]:
    found = np.quantile(values, shares, weights=weights, method="inverted_cdf")
    return [float(value) for value in found]
