"""Why training on many devices is not faster: which cause, what would decide it, what helps.

Each cause predicts the measured numbers by the draws of `causes.Steps`. A draw counts by how well
it meets them, times how frequent its cause is. The largest part of the extra time in a draw is its
cause, so the weights of the draws are the probabilities of the causes.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from nodewise.core.units import write_percent
from nodewise.predict import causes as c
from nodewise.predict.causes import CAUSES, Setup, Steps, total
from nodewise.predict.cluster_steps import draw_weights
from nodewise.predict.points import Floats
from nodewise.predict.posted_numbers import UNITS, Posted

CERTAIN = 0.9
"""Causes with this probability are certain."""

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
            (90 %), certain. None if scaling is normal for certain.
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
    steps = Steps(setup)
    judged = _judge(steps)
    rows = list(_causes(setup, judged))
    possible = setup.efficiency <= _MOST_EFFICIENT
    good = setup.efficiency >= c.NORMAL and setup.examples_known
    normal = possible and good and not setup.no_network
    counted = not setup.posted[0].times_steps
    decided = possible and (counted if normal else rows[0]["certain"])
    remedies = list(_remedies(steps, judged)) if possible and not normal else []
    found = {
        "causes": [] if normal and decided else rows,
        "decided": decided,
        "normal": normal,
        "measure": None if decided else _measure(setup, rows) if possible else _CHECK_UNITS,
        "remedies": sorted(remedies, key=lambda row: -row["likely"] * (row["gain"] - 1)),
        "read": list(_read(setup)),
        "implied_gbyte_per_s": implied_rate(setup),
        "efficiency": setup.efficiency,
    }
    return found | {"sentence": _sentence(found)}


Judged = tuple[Floats, Floats, Floats]
"""Draws of a cause: the time of computing on the reference, (draws,); seconds of extra time by
cause, (causes of `CAUSES`, draws); and the weights of the draws, (draws,)."""


def _judge(steps: Steps) -> dict[str, Judged]:
    """Return each possible cause; the weights of all draws sum to 1."""
    setup, frequent = steps.setup, steps.setup.frequent()
    first, *_, last = setup.posted
    runs: list[tuple[Posted, tuple[str, ...]]] = [(posted, ()) for posted in setup.posted[1:]]
    runs += [(posted, c.ABSENT[name]) for name, posted in setup.controls.items()]
    measured = np.array([setup.measured(posted) for posted, _ in runs])
    misses, drawn = [], []
    for cause in frequent:
        compute_s = steps.compute_s(cause)
        one = steps.parts(cause, compute_s, first.devices, reference=True)
        many = steps.parts(cause, compute_s, last.devices)
        totals = [
            total(steps.parts(cause, compute_s, posted.devices), absent) for posted, absent in runs
        ]
        misses.append(np.log(np.array(totals) / total(one) / measured[:, None]))
        none = np.zeros_like(compute_s)
        extra = [np.maximum(0, many.get(name, none) - one.get(name, none)) for name in CAUSES]
        drawn.append((compute_s, np.array(extra)))
    prior = np.array(list(frequent.values()))[:, None]
    weights = draw_weights(np.array(misses), prior)
    rows = zip(frequent, drawn, weights, strict=True)
    return {cause: (*arrays, row) for cause, arrays, row in rows}


def _causes(setup: Setup, judged: Mapping[str, Judged]) -> Iterator[dict[str, Any]]:
    """Yield the causes, most likely first."""
    extra = np.concatenate([one for _, one, _ in judged.values()], axis=1)
    weights = np.concatenate([one for _, _, one in judged.values()])
    shares = extra / np.maximum(extra.sum(axis=0), 1e-12)
    likely = np.bincount(shares.argmax(axis=0), weights, len(CAUSES))
    for name, share, probability in sorted(
        zip(CAUSES, shares, likely.tolist(), strict=True), key=lambda row: -row[2]
    ):
        if share.any():
            low, high = _quantile(share, weights, (0.05, 0.95))
            yield {
                "name": name,
                "probability": probability,
                "share": float(share @ weights),
                "low": low,
                "high": high,
                "certain": probability >= CERTAIN and not _cores_unknown(setup),
            }


def _cores_unknown(setup: Setup) -> bool:
    """Return whether nothing tells busy cores from other causes: on the same devices."""
    return setup.no_network and setup.cores is None


def _measure(setup: Setup, rows: list[dict[str, Any]]) -> str:
    """Return the measurement that would show the most likely cause, or else the next."""
    if _cores_unknown(setup):
        return MEASUREMENTS["cores"]
    done = {
        **dict.fromkeys(setup.controls, True),
        "link": setup.link_measured,
        "sums": setup.servers is not None,
        "payload": setup.payload_known,
        "cores": setup.cores is not None,
        "third": len(setup.posted) > 2,
        "node": setup.posted[0].devices > 1 or not setup.across,
    }
    asked = (name for row in rows for name in CAUSES[row["name"]].measure if not done.get(name))
    return MEASUREMENTS[next(asked)]


class _Remedy(NamedTuple):
    """What may help.

    Attributes:
        name: what to do.
        factors: factors of the seconds of causes; None: nothing but what is usual is left.
        cause: the cause that it is for; "" is for all.
        devices: the number of devices; None: as many as now.
    """

    name: str
    factors: Mapping[str, float] | None
    cause: str = ""
    devices: int | None = None


def _possible_remedies(setup: Setup) -> Iterator[_Remedy]:
    yield _Remedy("four times the batch per device", dict.fromkeys([*c.EXCHANGE, c.SHORT], 1 / 4))
    fewer = "exchange every 8th step (accumulate or average)"
    yield _Remedy(fewer, dict.fromkeys(c.EXCHANGE, 1 / 8))
    if setup.training.bytes_each == (4.0,):
        yield _Remedy("gradients in 16 bits", dict.fromkeys([*c.SENT, c.LINK], 1 / 2))
    yield _Remedy("a link four times as fast", dict.fromkeys(c.SENT, 1 / 4))
    inside, nodes = setup.layout(setup.posted[-1].devices)
    if nodes > 1 and inside > 1:
        yield _Remedy(f"only the {inside} devices of one node", {}, devices=inside)
    if nodes > 1:
        yield _Remedy(
            f"{nodes} servers", {c.SERVERS: max(setup.servers or 1, 1) / nodes}, c.SERVERS
        )
    for name, cause in CAUSES.items():
        if cause.remedy:
            yield _Remedy(cause.remedy, None, name)


def _remedies(steps: Steps, judged: Mapping[str, Judged]) -> Iterator[dict[str, Any]]:
    """Yield the remedies that bring something."""
    last = steps.setup.posted[-1]
    for remedy in _possible_remedies(steps.setup):
        chosen = {one: row for one, row in judged.items() if remedy.cause in ("", one)}
        weights = np.concatenate([[], *(row for _, _, row in chosen.values())])
        likely = float(weights.sum())
        if likely < _LEAST_LIKELY:
            continue
        gains = [_gain(steps, one, compute_s, remedy) for one, (compute_s, *_) in chosen.items()]
        gain, *ends = _quantile(np.concatenate(gains), weights, (0.5, 0.05, 0.95))
        value, *ends = (last.value * (x if last.rises else 1 / x) for x in (gain, *ends))
        if gain > _LEAST_GAIN:
            yield {
                "name": remedy.name, "for": remedy.cause or None, "likely": likely, "value": value,
                "low": min(ends), "high": max(ends), "unit": UNITS[last.clock], "gain": gain,
            }  # fmt: skip


def _gain(steps: Steps, cause: str, compute_s: Floats, remedy: _Remedy) -> Floats:
    """Return the factor of examples per second that a remedy brings."""
    setup = steps.setup
    first, last = setup.posted[0].devices, setup.posted[-1].devices
    devices, factors = remedy.devices or last, remedy.factors or {}
    left = c.BYTES if remedy.factors is None else cause
    after = steps.parts(left, compute_s, devices, reference=devices == first < last)
    after_s = total({name: part * factors.get(name, 1.0) for name, part in after.items()})
    before_s = total(steps.parts(cause, compute_s, last))
    examples = devices * setup.examples(devices) / (last * setup.examples(last))
    return np.asarray(before_s / after_s * examples)


def implied_rate(setup: Setup) -> float | None:
    """Return the bytes of the exchange over the extra time, in GB/s; None if unknown."""
    first, last, training = setup.posted[0], setup.posted[-1], setup.training
    known = first.times_steps or (first.rises and training.batch)
    if not setup.payload_known or not known or last.devices == 1:
        return None
    step_s = float(first.step_s(np.array(training.batch or 1.0)))
    extra_s = step_s * (setup.measured(last) - setup.examples(last.devices))
    count = setup.layout(last.devices)[int(setup.across)]
    gbyte = training.parameters * training.bytes_each[-1] / setup.accumulate / 1e9
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
    if found["normal"]:
        share = write_percent(found["efficiency"])
        normal = f"Nothing is wrong: scaling is normal, with an efficiency of {share}"
        if found["measure"] is None:
            return f"{normal}."
        return f"{normal}, if each device has a batch of its own. To be sure: {found['measure']}"
    likely = [f"{row['name']} ({write_percent(row['probability'])})" for row in found["causes"][:2]]
    if found["efficiency"] > _MOST_EFFICIENT:
        return f"The numbers do not fit: more than each device can do alone. {_CHECK_UNITS}"
    if found["measure"]:
        return f"The numbers do not decide: {' or '.join(likely)}. {found['measure']}"
    best = f" What helps most: {found['remedies'][0]['name']}." if found["remedies"] else ""
    return f"The cause is: {likely[0]}.{best}"


def _quantile(values: Floats, weights: Floats, shares: tuple[float, ...]) -> list[float]:
    found = np.quantile(values, shares, weights=weights, method="inverted_cdf")
    return [float(value) for value in found]
