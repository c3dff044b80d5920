"""Why training on many devices is not faster: which cause, what would decide it, what helps.

Each cause predicts the measured numbers by the draws of `causes.Steps`. A draw counts by how well
it meets them, times how frequent its cause is. The largest part of the extra time in a draw is its
cause, so the weights of the draws are the probabilities of the causes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from nodewise.core.units import write_percent
from nodewise.predict import causes as c
from nodewise.predict.causes import CAUSES, Setup, Steps, total
from nodewise.predict.cluster_steps import draw_weights
from nodewise.predict.points import Floats, Mask
from nodewise.predict.posted_numbers import UNITS

CERTAIN = 0.9
"""A cause with this probability is certain."""

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


def explain(setup: Setup) -> dict[str, Any]:
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
        implied_gbyte_per_s: bytes of the exchange over the extra time; None if unknown.
        efficiency: examples per second and device, relative to the reference.
        sentence: what to do.
    """
    steps, first, last = Steps(setup), setup.posted[0], setup.posted[-1]
    one, many = steps.parts(first.devices, reference=True), steps.parts(last.devices)
    runs = {"": (), **c.ABSENT}
    measured = [("", posted) for posted in setup.posted[1:]] + [*setup.controls.items()]
    misses = [
        np.log(total(steps.parts(run.devices), runs[name]) / total(one) / setup.measured(run))
        for name, run in measured
    ]
    prior = np.array([*setup.frequent.values()])[:, None]
    weights = draw_weights(np.swapaxes(misses, 0, 1), prior)
    rows = list(_causes(np.maximum(0, many - one)[1:].reshape(len(CAUSES), -1), weights.ravel()))
    # On the same devices, only their cores tell busy cores from other causes.
    cores_unknown = setup.no_network and setup.cores is None
    possible = setup.efficiency <= _MOST_EFFICIENT
    good = setup.efficiency >= c.NORMAL and setup.examples_known
    normal = possible and good and not setup.no_network
    certain = rows[0]["probability"] >= CERTAIN and not cores_unknown
    decided = possible and (not first.times_steps if normal else certain)
    wanted = "cores" if cores_unknown else _most_telling(setup, rows)
    undecided = MEASUREMENTS[wanted] if possible else _CHECK_UNITS
    remedies = _remedies(steps, many, weights) if possible and not normal else []
    found = {
        "causes": [] if normal and decided else rows,
        "decided": decided,
        "normal": normal,
        "measure": None if decided else undecided,
        "remedies": sorted(remedies, key=lambda row: -row["likely"] * (row["gain"] - 1)),
        "read": list(_read(setup)),
        "implied_gbyte_per_s": implied_rate(setup),
        "efficiency": setup.efficiency,
    }
    return found | {"sentence": _sentence(found)}


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


def _most_telling(setup: Setup, rows: list[dict[str, Any]]) -> str:
    """Return the measurement that would show the most likely cause, or else the next."""
    done = {
        **dict.fromkeys(setup.controls, True),
        "link": setup.link_measured,
        "sums": setup.servers is not None,
        "payload": setup.payload_known,
        "cores": setup.cores is not None,
        "third": len(setup.posted) > 2,
        "node": setup.posted[0].devices > 1 or not setup.across,
    }
    return next(x for row in rows for x in CAUSES[row["name"]].measure if not done.get(x))


def _remedies(steps: Steps, many: Floats, weights: Floats) -> Iterator[dict[str, Any]]:
    """Yield the remedies that bring something.

    Args:
        steps: the draws.
        many: the parts of the step in question, (parts, possible causes, draws).
        weights: the weights of the draws, (possible causes, draws).
    """
    setup, first, last = steps.setup, steps.setup.posted[0], steps.setup.posted[-1]
    inside, nodes = setup.layout(last.devices)
    shrunk = {
        "four times the batch per device": dict.fromkeys([*c.EXCHANGE, c.SHORT], 1 / 4),
        "exchange every 8th step (accumulate or average)": dict.fromkeys(c.EXCHANGE, 1 / 8),
        "a link four times as fast": dict.fromkeys(c.SENT, 1 / 4),
        "gradients in 16 bits": dict.fromkeys([*c.SENT, c.LINK], 1 / 2),
    }
    if setup.training.bytes_each != (4.0,):
        del shrunk["gradients in 16 bits"]
    possible = np.ones(len(weights), bool)
    found: list[tuple[str, str | None, Mask, Floats, int]] = []
    for name, factors in shrunk.items():
        each = np.array([1.0, *(factors.get(cause, 1.0) for cause in CAUSES)])
        found.append((name, None, possible, many * each[:, None, None], last.devices))
    if nodes > 1 and inside > 1:
        after = steps.parts(inside, reference=inside == first.devices)
        found.append((f"only the {inside} devices of one node", None, possible, after, inside))
    without = steps.parts(last.devices, usual=True)
    for row, cause in enumerate(setup.frequent):
        if remedy := CAUSES[cause].remedy:
            found.append((remedy, cause, np.arange(len(weights)) == row, without, last.devices))
    for name, of, chosen, after, devices in found:
        likely = float(weights[chosen].sum())
        more = devices * setup.examples(devices) / last.devices / setup.examples(last.devices)
        gains = (total(many) / total(after) * more)[chosen]
        if likely >= _LEAST_LIKELY:
            shares = (0.5, 0.05, 0.95)
            gain, *ends = _quantile(gains.ravel(), weights[chosen].ravel(), shares)
            value, *ends = (last.value * (x if last.rises else 1 / x) for x in (gain, *ends))
            if gain > _LEAST_GAIN:
                about = {"name": name, "for": of, "likely": likely, "unit": UNITS[last.clock]}
                yield about | {"value": value, "low": min(ends), "high": max(ends), "gain": gain}


def implied_rate(setup: Setup) -> float | None:
    """Return the bytes of the exchange over the extra time, in GB/s; None if unknown."""
    first, last, training = setup.posted[0], setup.posted[-1], setup.training
    known = first.times_steps or (first.rises and training.batch)
    if not setup.payload_known or not known or last.devices == 1:
        return None
    of_reference = first.devices * (training.batch or 1.0) / first.value
    step_s = of_reference if first.rises else first.value
    extra_s = step_s * (setup.measured(last) - setup.examples(last.devices))
    count = setup.layout(last.devices)[int(setup.across)]
    gbyte = (training.parameters or 0.0) * training.bytes_each[-1] / setup.accumulate / 1e9
    return 2 * (1 - 1 / count) * gbyte / extra_s if extra_s > 0 else None


def _read(setup: Setup) -> Iterator[str]:
    yield from map(str, setup.posted)
    for name, posted in setup.controls.items():
        yield f"{name}: {posted}"
    first, last = setup.posted[0], setup.posted[-1]
    if setup.strong is None and first.devices < last.devices:
        yield "assumed: the same batch on each device"
    if setup.misread and first.times_steps:
        gain = setup.efficiency * last.devices / first.devices
        yield f"a step of {last.devices} devices has more examples: {gain:.2f}× the examples/s"


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
