"""Why training on many devices is not faster: which cause, what would decide it, what helps.

Each cause predicts the measured numbers by the draws of `causes.Steps`. A draw counts by how well
it meets them, times how frequent its cause is. The largest part of the extra time in a draw is its
cause, so the weights of the draws are the probabilities of the causes.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from nodewise.core.units import write_percent
from nodewise.predict import causes as c
from nodewise.predict.causes import CAUSES, Steps, total
from nodewise.predict.cluster_steps import draw_weights
from nodewise.predict.points import Floats
from nodewise.predict.posted_numbers import UNITS

CERTAIN = 0.9
"""A cause with this probability is certain."""

_INPUT_DOMINATES = 0.5  # of a step
_MOST_EFFICIENT = 1.2  # caches and faster kernels of larger batches explain no more
_CHECK_UNITS = (
    "Check the units: examples or steps, in total or per device, and the batch of a device."
)
_LEAST_LIKELY, _LEAST_GAIN = 0.05, 1.03  # of the remedies that are listed

MEASUREMENTS: Mapping[str, str] = {
    "synthetic": "Run on synthetic data on the same devices (--synthetic).",
    "no-sync": "Run without exchanging gradients on the same devices (--no-sync).",
    "link": "Run nccl-tests on the link (its output goes to --between or --within), or read with "
    "NCCL_DEBUG=INFO which transport is used.",
    "sums": "Find out what sums the gradients, and how many servers (--sums).",
    "batch": "Look which devices are busy, and count the examples of a step on all of them "
    "(--batch).",
    "payload": "Count the model's parameters (--parameters) and gradients (--tensors).",
    "trace": "Trace a step: which operation waits, and how many messages are sent (--tensors).",
    "cores": "Compare the busy threads with the cores of a machine (--cores).",
    "epoch": "Count the steps of each device in an epoch.",
    "third": "Measure a third number of devices (--at).",
    "node": "Measure as many devices within one node (--one, --one-devices, --one-nodes 1).",
}
"""Measurements that show causes: what to do."""
_REMEDIES: Mapping[str, Mapping[str, float]] = {
    "four times the batch per device": dict.fromkeys([*c.EXCHANGE, c.SHORT], 1 / 4),
    "exchange every 8th step (accumulate or average)": dict.fromkeys(c.EXCHANGE, 1 / 8),
    "a link four times as fast": dict.fromkeys(c.SENT, 1 / 4),
    "gradients in 16 bits": dict.fromkeys([*c.SENT, c.LINK], 1 / 2),
}
"""By what remedies multiply the time of causes for the same examples."""


def explain(steps: Steps) -> dict[str, Any]:
    """Return why the last number of devices is not faster.

    Returns:
        causes: most likely first: name, probability, share of the extra time with low and high
            (90 %). None if scaling is normal for certain.
        decided: whether the first cause is certain, or scaling is normal for certain.
        normal: whether scaling is as good as can be expected. If steps were timed, this is so if
            each device has a batch of its own.
        measure: the measurement that would decide; None if decided.
        remedies: name, the cause that each is for (or None) and how likely it is, value, low, high,
            unit, gain. Values are those that the last number would have if that is the cause.
        read: what was read into each number.
        implied_gbyte_per_s: bytes of the exchange over the extra time; None if unknown. Far below
            the link's rate, another link is in use.
        efficiency: examples per second and device, relative to the reference.
        input_share: share of the last number's step that waited for input; None if unknown. If it
            is most of the step, input is the cause, and its share is this one.
        sentence: what to do.
    """
    one, many = steps.parts(steps.first.devices, reference=True), steps.parts(steps.last.devices)
    runs = {"": (), **c.ABSENT}
    measured = [("", posted) for posted in steps.posted[1:]] + [*steps.controls.items()]
    misses = [
        np.log(total(steps.parts(run.devices), runs[name]) / total(one) / steps.measured(run))
        for name, run in measured
    ]
    prior = np.array([*steps.frequent.values()])[:, None]
    weights = draw_weights(np.swapaxes(misses, 0, 1), prior)
    rows = list(_causes(np.maximum(0, many - one)[1:].reshape(len(CAUSES), -1), weights.ravel()))
    possible = steps.efficiency <= _MOST_EFFICIENT
    good = steps.efficiency >= c.NORMAL and steps.examples_known
    normal = possible and good and not steps.no_network
    # On the same devices, only their cores tell busy cores from other causes.
    cores_unknown = steps.no_network and steps.cores is None
    certain = rows[0]["probability"] >= CERTAIN and not cores_unknown
    decided = possible and (not steps.first.times_steps if normal else certain)
    wanted = "cores" if cores_unknown else _most_telling(steps, rows)
    undecided = MEASUREMENTS[wanted] if possible else _CHECK_UNITS
    remedies = _remedies(steps, many, weights) if possible and not normal else ()
    share = steps.training.input_share
    found = {
        "input_share": share,
        "causes": [] if normal and decided else rows,
        "decided": decided,
        "normal": normal,
        "measure": None if decided else undecided,
        "remedies": sorted(remedies, key=lambda row: -row["likely"] * (row["gain"] - 1)),
        "read": list(_read(steps)),
        "implied_gbyte_per_s": implied_rate(steps),
        "efficiency": steps.efficiency,
    }
    if share is None or share < _INPUT_DOMINATES:
        return found | {"sentence": _sentence(found)}
    row = dict.fromkeys(("share", "low", "high"), share)
    waits = f"The cause is: input. {write_percent(share)} of a step on {steps.last.devices} devices"
    return found | {
        "causes": [{"name": c.INPUT, "probability": 1.0, **row}],
        "decided": True,
        "normal": False,
        "measure": None,
        "remedies": [],
        "sentence": f"{waits} is waiting for the next batch, as measured.",
    }


def _causes(extra: Floats, weights: Floats) -> Iterator[dict[str, Any]]:
    """Yield the causes, most likely first, from extra seconds, (causes of `CAUSES`, draws)."""
    shares = extra / np.maximum(extra.sum(axis=0), 1e-12)
    likely = np.bincount(shares.argmax(axis=0), weights, len(CAUSES)).tolist()
    rows = zip(CAUSES, shares, likely, strict=True)
    for name, share, probability in sorted(rows, key=lambda row: -row[2]):
        if share.any():
            low, high = _quantile(share, weights, (0.05, 0.95))
            about = {"name": name, "probability": probability, "share": float(share @ weights)}
            yield about | {"low": low, "high": high}


def _most_telling(steps: Steps, rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the measurement that would show the most likely cause, or else the next."""
    done = {
        **dict.fromkeys(steps.controls, True),
        "link": steps.link_measured,
        "sums": steps.servers is not None,
        "payload": steps.training.parameters is not None,
        "cores": steps.cores is not None,
        "third": len(steps.posted) > 2,
        "node": steps.first.devices > 1 or not steps.across,
    }
    return next(x for row in rows for x in CAUSES[row["name"]].measure if not done.get(x))


def _remedies(steps: Steps, many: Floats, weights: Floats) -> Iterator[dict[str, Any]]:
    """Yield the remedies that bring something.

    Args:
        steps: the draws.
        many: the parts of the step in question, (parts, possible causes, draws).
        weights: the weights of the draws, (possible causes, draws).
    """
    last, count = steps.last, steps.last.devices
    inside, nodes = steps.layout(count)
    found: list[tuple[str, str | None, Floats, int]] = []
    for name, factors in _REMEDIES.items():
        each = np.array([1.0, *(factors.get(cause, 1.0) for cause in CAUSES)])
        if name != "gradients in 16 bits" or steps.training.bytes_each == (4.0,):
            found.append((name, None, many * each[:, None, None], count))
    if nodes > 1 and inside > 1:
        after = steps.parts(inside, reference=inside == steps.first.devices)
        found.append((f"only the {inside} devices of one node", None, after, inside))
    without, possible = steps.parts(count, usual=True), [*steps.frequent]
    found += [(CAUSES[x].remedy, x, without, count) for x in possible if CAUSES[x].remedy]
    for name, cause, after, devices in found:
        chosen = slice(None) if cause is None else possible.index(cause)
        share = weights[chosen].ravel()
        more = devices * steps.examples(devices) / count / steps.examples(count)
        gains = (total(many) / total(after) * more)[chosen].ravel()
        if share.sum() >= _LEAST_LIKELY:
            gain, *ends = _quantile(gains, share, (0.5, 0.05, 0.95))
            value, *ends = (last.value * (x if last.rises else 1 / x) for x in (gain, *ends))
            if gain > _LEAST_GAIN:
                about = {"name": name, "for": cause, "likely": float(share.sum())}
                about |= {"unit": UNITS[last.clock], "value": value, "gain": gain}
                yield about | {"low": min(ends), "high": max(ends)}


def implied_rate(steps: Steps) -> float | None:
    """Return the bytes of the exchange over the extra time, in GB/s; None if unknown."""
    first, last, training = steps.first, steps.last, steps.training
    timed = first.times_steps or (first.rises and training.batch)
    if not training.parameters or not timed or last.devices == 1:
        return None
    step_s = first.devices * (training.batch or 1.0) / first.value if first.rises else first.value
    extra_s = step_s * (steps.measured(last) - steps.examples(last.devices))
    ring = 2 * (1 - 1 / steps.layout(last.devices)[int(steps.across)])
    gbyte = ring * training.parameters * training.bytes_each[-1] / 1e9
    return gbyte / extra_s if extra_s > 0 else None


def _read(steps: Steps) -> Iterator[str]:
    yield from map(str, steps.posted)
    for name, posted in steps.controls.items():
        yield f"{name}: {posted}"
    if steps.training.batch is None and steps.first.devices < steps.last.devices:
        yield "assumed: the same batch on each device"
    if steps.misread and steps.first.times_steps:
        gain = steps.efficiency * steps.last.devices / steps.first.devices
        yield f"a step of {steps.last.devices} devices has {gain:.2f} times the examples/s"


def _sentence(found: Mapping[str, Any]) -> str:
    """Return what to do."""
    measure = found["measure"]
    if found["normal"]:
        share = write_percent(found["efficiency"])
        unsure = f", if each device has a batch of its own. To be sure: {measure}"
        normal = f"Nothing is wrong: scaling is normal, with an efficiency of {share}"
        return f"{normal}{unsure if measure else '.'}"
    if found["efficiency"] > _MOST_EFFICIENT:
        return f"The numbers do not fit: more than each device can do alone. {_CHECK_UNITS}"
    likely = [f"{row['name']} ({write_percent(row['probability'])})" for row in found["causes"][:2]]
    if measure:
        return f"The numbers do not decide: {' or '.join(likely)}. {measure}"
    best = f" What helps most: {found['remedies'][0]['name']}." if found["remedies"] else ""
    return f"The cause is: {likely[0]}.{best}"


def _quantile(values: Floats, weights: Floats, shares: tuple[float, ...]) -> list[float]:
    found = np.quantile(values, shares, weights=weights, method="inverted_cdf")
    return [float(value) for value in found]
