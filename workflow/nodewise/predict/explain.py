"""Why training on many devices is not faster: which cause, what would decide it, what helps.

Each cause predicts the measured numbers by the draws of `causes.Steps`. A draw counts by how well
it meets them, times how frequent its cause is. The largest part of the extra time in a draw is its
cause, so the weights of the draws are the probabilities of the causes.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from nodewise.core.errors import UserError
from nodewise.core.units import write_percent
from nodewise.predict import causes as c
from nodewise.predict.causes import Change, Setup, Steps
from nodewise.predict.cluster_links import Link, between_nodes, is_within, within_node
from nodewise.predict.cluster_steps import Cluster, log_likelihood
from nodewise.predict.points import Floats
from nodewise.predict.posted_numbers import UNITS, Posted

CERTAIN = 0.9
"""Causes with this probability are certain."""

NORMAL = 0.85
"""Scaling with this efficiency is normal."""

_MOST_EFFICIENT = 1.2  # caches and faster kernels of larger batches explain no more
_CHECK_UNITS = (
    "Check the units: examples or steps, in total or per device, and the batch of a device."
)
_LEAST_DRAWS = 20.0  # effective number of draws; with fewer, numbers are trusted less
_LEAST_LIKELY, _LEAST_GAIN = 0.05, 1.03  # of the remedies that are listed
_ANY_NETWORK = Link((("tcp", 0.125e9), ("tcp", 1.25e9), ("tcp", 3.1e9), ("rdma", 12.5e9)))

MEASUREMENTS: Mapping[str, tuple[float, str, tuple[tuple[str, ...], ...]]] = {
    "synthetic": (1.0, "Run on synthetic data on the same devices (--synthetic).", ((c.INPUT,),)),
    "no-sync": (
        1.0, "Run without exchanging gradients on the same devices (--no-sync).", (c.EXCHANGE,)
    ),
    "link": (
        1.0,
        "Run nccl-tests on the link (its output goes to --between or --within), or read with "
        "NCCL_DEBUG=INFO which transport is used.",
        ((c.BYTES, c.NO_OVERLAP), (c.LINK,)),
    ),
    "sums": (
        1.0, "Find out what sums the gradients, and how many servers (--sums).", ((c.SERVERS,),)
    ),
    "batch": (
        1.0,
        "Look which devices are busy, and count the examples of a step on all of them (--batch).",
        ((c.CONFUSED,), (c.ALONE,)),
    ),
    "payload": (
        1.0,
        "Count the model's parameters (--parameters) and gradients (--tensors).",
        ((c.BYTES, c.NO_OVERLAP), (c.LINK,), (c.MESSAGES,)),
    ),
    "trace": (
        0.8,
        "Trace a step: which operation waits, and how many messages are sent (--tensors).",
        ((c.MESSAGES,), (c.SPARSE,), (c.LOGGING,), (c.SHORT,), (c.STRAGGLERS,)),
    ),
    "cores": (
        0.9, "Compare the busy threads with the cores of a machine (--cores).", ((c.CORES,),)
    ),
    "epoch": (1.0, "Count the steps of each device in an epoch.", ((c.WHOLE,),)),
    "third": (
        0.5,
        "Measure a third number of devices (--at).",
        ((c.SPARSE, c.SERVERS), (c.INPUT, c.ALONE), (c.MESSAGES, c.LOGGING, c.SHORT)),
    ),
    "node": (
        0.7,
        "Measure as many devices within one node (--one, --one-devices, --one-nodes 1).",
        ((c.BYTES, c.LINK, c.MESSAGES, c.NO_OVERLAP, c.SERVERS),),
    ),
}  # fmt: skip
"""Measurements that could decide: how far the result can be trusted, what to do, and the groups of
causes that the result tells from each other and from all others."""

_REMOVED: Mapping[str, str] = {
    c.LINK: "use the link that is there (NCCL_SOCKET_IFNAME, RDMA drivers, peer-to-peer)",
    c.INPUT: "an input that is not the limit",
    c.SERVERS: "all-reduce in place of servers",
    c.SPARSE: "sum sparse gradients densely",
    c.NO_OVERLAP: "exchange while computing",
    c.STRAGGLERS: "equal devices that do not wait",
    c.CORES: "enough cores for each process",
    c.LOGGING: "synchronise and log rarely",
    c.WHOLE: "give each device its own part of the data",
    c.ALONE: "use all devices",
}


class _Judged(NamedTuple):
    """A cause. All arrays are (1 + DRAWS,).

    Attributes:
        compute_s: time of computing on the reference.
        extra: seconds of extra time by cause.
        total: step time in question, relative to the reference.
        weights: weights of the draws.
    """

    compute_s: Floats
    extra: dict[str, Floats]
    total: Floats
    weights: Floats


def explain(setup: Setup) -> dict[str, Any]:
    """Return why the last number of devices is not faster.

    Returns:
        causes: most likely first: name, probability, share of the extra time with low and high
            (90 %), certain, evidence.
        decided: whether the first cause is certain, or scaling is normal.
        normal: whether scaling is as good as can be expected.
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
    rows = list(_causes(steps, judged))
    possible = setup.efficiency <= _MOST_EFFICIENT
    normal = possible and setup.efficiency >= NORMAL and not setup.misread and not setup.no_network
    decided = normal or (possible and rows[0]["certain"])
    remedies = _remedies(steps, judged) if possible else iter(())
    found = {
        "causes": rows,
        "decided": decided,
        "normal": normal,
        "measure": None if decided else _measure(setup, rows) if possible else _CHECK_UNITS,
        "remedies": sorted(
            remedies if possible else (), key=lambda row: -row["likely"] * (row["gain"] - 1)
        ),
        "read": list(_read(setup)),
        "implied_gbyte_per_s": implied_rate(setup),
        "efficiency": setup.efficiency,
    }
    return found | {"sentence": _sentence(found)}


def _judge(steps: Steps) -> dict[str, _Judged]:
    """Return each possible cause; the weights of all draws sum to 1."""
    setup, frequent = steps.setup, steps.setup.frequent()
    misses, judged = [], []
    for cause in frequent:
        compute_s = steps.compute_s(cause)
        one = steps.parts(cause, compute_s, setup.posted[0].devices, reference=True)
        last = steps.parts(cause, compute_s, setup.posted[-1].devices)
        others = [steps.parts(cause, compute_s, posted.devices) for posted in setup.posted[1:-1]]
        runs: list[tuple[Posted, dict[str, Floats], tuple[str, ...]]]
        runs = [(*pair, ()) for pair in zip(setup.posted[1:], [*others, last], strict=True)]
        if setup.synthetic:
            runs.append((setup.synthetic, last, (c.INPUT,)))
        if setup.no_sync:
            runs.append((setup.no_sync, last, c.EXCHANGE))
        totals = [_sum(parts, absent) / _sum(one) for _, parts, absent in runs]
        measured = [steps.measured(posted) for posted, *_ in runs]
        misses.append(np.log(np.array(totals) / np.array(measured)[:, None]))
        extra = {name: np.maximum(0, last[name] - one.get(name, 0.0)) for name in last}
        judged.append(_Judged(compute_s, extra, _sum(last) / _sum(one), compute_s))
    weights = _weights(np.array(misses), np.array(list(frequent.values())), steps.draws.noise_scale)
    rows = zip(frequent, judged, weights, strict=True)
    return {cause: one._replace(weights=row) for cause, one, row in rows}


def _weights(misses: Floats, frequent: Floats, noise: float) -> Floats:
    """Return the weights of draws, (causes, draws).

    Args:
        misses: log of predicted over measured step times, (causes, numbers, draws).
        frequent: how frequent each cause is, (causes,).
        noise: relative scatter of a measured step time.
    """
    while True:
        logs = log_likelihood(misses, noise)
        weights = frequent[:, None] * np.exp(logs - logs.max())
        weights /= weights.sum()
        if 1 / (weights**2).sum() >= _LEAST_DRAWS:
            return np.asarray(weights)
        noise *= 1.3


def _causes(steps: Steps, judged: Mapping[str, _Judged]) -> Iterator[dict[str, Any]]:
    """Yield the causes, most likely first."""
    names = [
        name for name in (*c.FREQUENT, c.CONFUSED) if any(name in j.extra for j in judged.values())
    ]
    none = np.zeros_like(steps.first_s)
    extra = np.concatenate(
        [np.array([one.extra.get(name, none) for name in names]) for one in judged.values()], axis=1
    )
    shares = extra / np.maximum(extra.sum(axis=0), 1e-12)
    weights = np.concatenate([one.weights for one in judged.values()])
    largest = shares.argmax(axis=0)
    likely = [float(weights[largest == i].sum()) for i in range(len(names))]
    measured = steps.measured(steps.setup.posted[-1])
    undecidable = _cores_unknown(steps.setup)
    for i in np.argsort(likely)[::-1]:
        evidence = ""
        if names[i] in judged:
            low, high = np.quantile(judged[names[i]].total, (0.05, 0.95))
            evidence = f"{low:.2f} to {high:.2f}× the reference's step; measured {measured:.2f}×"
        yield {
            "name": names[i],
            "probability": likely[i],
            "share": float(shares[i] @ weights),
            "low": _quantile(shares[i], weights, 0.05),
            "high": _quantile(shares[i], weights, 0.95),
            "certain": likely[i] >= CERTAIN and not undecidable,
            "evidence": evidence,
        }


def _cores_unknown(setup: Setup) -> bool:
    """Return whether nothing tells busy cores from other causes: on the same devices."""
    return setup.no_network and setup.cores is None


def _measure(setup: Setup, rows: list[dict[str, Any]]) -> str:
    """Return the measurement whose result separates the likely causes best."""
    if _cores_unknown(setup):
        return MEASUREMENTS["cores"][1]
    likely = {row["name"]: row["probability"] for row in rows}
    done = {
        "synthetic": setup.synthetic is not None,
        "no-sync": setup.no_sync is not None or setup.no_network,
        "link": setup.no_network,
        "sums": setup.servers is not None,
        "batch": not setup.misread,
        "payload": setup.payload_known,
        "cores": setup.cores is not None,
        "epoch": setup.posted[0].clock != "epoch_time_s",
        "third": len(setup.posted) > 2,
        "node": setup.posted[0].devices > 1 or setup.layout(setup.posted[-1].devices)[1] == 1,
    }

    def separates(name: str) -> float:
        trust, _, groups = MEASUREMENTS[name]
        shares = [sum(float(likely.get(cause, 0.0)) for cause in group) for group in groups]
        return trust * (1 - sum(share**2 for share in (*shares, 1 - sum(shares))))

    left = [name for name in MEASUREMENTS if not done.get(name)]
    return MEASUREMENTS[max(left, key=separates)][1]


def _changes(setup: Setup) -> Iterator[tuple[str, Change, str]]:
    """Yield possible remedies, and the cause that each is for; "" is for all."""
    yield "four times the batch per device", Change(batch=4.0), ""
    yield "exchange every 8th step (accumulate or average)", Change(exchanges=1 / 8), ""
    if setup.training.bytes_each == (4.0,):
        yield "gradients in 16 bits", Change(payload=0.5), ""
    yield "a link four times as fast", Change(link=0.25), ""
    inside, nodes = setup.layout(setup.posted[-1].devices)
    if nodes > 1 and inside > 1:
        yield f"only the {inside} devices of one node", Change(devices=inside), ""
    if nodes > 1:
        yield f"{nodes} servers", Change(servers=nodes), c.SERVERS
    for name, text in _REMOVED.items():
        yield text, Change(without=name), name


def _remedies(steps: Steps, judged: Mapping[str, _Judged]) -> Iterator[dict[str, Any]]:
    """Yield the remedies that bring something."""
    last = steps.setup.posted[-1]
    for name, change, cause in _changes(steps.setup):
        chosen = {one: row for one, row in judged.items() if cause in ("", one)}
        likely = sum(float(row.weights.sum()) for row in chosen.values())
        if likely < _LEAST_LIKELY:
            continue
        weights = np.concatenate([row.weights for row in chosen.values()])
        gains = np.concatenate(
            [_gain(steps, one, row.compute_s, change) for one, row in chosen.items()]
        )
        gain, *ends = (_quantile(gains, weights, share) for share in (0.5, 0.05, 0.95))
        value, *ends = (last.value * (x if last.rises else 1 / x) for x in (gain, *ends))
        if gain > _LEAST_GAIN:
            yield {
                "name": name, "for": cause or None, "likely": likely, "value": value,
                "low": min(ends), "high": max(ends), "unit": UNITS[last.clock], "gain": gain,
            }  # fmt: skip


def _gain(steps: Steps, cause: str, compute_s: Floats, change: Change) -> Floats:
    """Return the factor of examples per second that a remedy brings."""
    first, last = steps.setup.posted[0].devices, steps.setup.posted[-1].devices
    devices = change.devices or last
    all_reduce = cause == change.without == c.SERVERS
    after = steps.parts(
        c.BYTES if all_reduce else cause, compute_s, devices, change,
        reference=devices == first < last,
    )  # fmt: skip
    before = steps.parts(cause, compute_s, last)
    examples = devices * steps.work(devices) / (last * steps.work(last)) * change.batch
    return np.asarray(_sum(before) / _sum(after) * examples)


def implied_rate(setup: Setup) -> float | None:
    """Return the bytes of the exchange over the extra time, in GB/s; None if unknown."""
    first, last, batch = setup.posted[0], setup.posted[-1], setup.training.batch
    known = first.counts_steps or (first.clock == "samples_per_s" and batch)
    inside, nodes = setup.layout(last.devices)
    if not setup.payload_known or not known or last.devices == 1:
        return None
    part = first.devices / last.devices if setup.strong else 1.0
    extra = last.step_s((batch or 1) * part) - part * first.step_s(batch or 1)
    count = nodes if nodes > 1 else inside
    payload = setup.training.parameters * setup.training.bytes_each[-1] / setup.accumulate
    return 2 * (1 - 1 / count) * payload / 1e9 / extra if extra > 0 else None


def _read(setup: Setup) -> Iterator[str]:
    yield from map(str, setup.posted)
    if setup.synthetic:
        yield f"on synthetic data: {setup.synthetic}"
    if setup.no_sync:
        yield f"without exchange: {setup.no_sync}"
    first, last = setup.posted[0], setup.posted[-1]
    if setup.strong is None and first.devices < last.devices:
        yield "assumed: the same batch on each device"
    if setup.misread:
        gain = setup.efficiency * last.devices / first.devices
        yield f"a step of {last.devices} devices has more examples: {gain:.2f}× the examples/s"


def _sentence(found: Mapping[str, Any]) -> str:
    """Return what to do."""
    if found["normal"]:
        share = write_percent(found["efficiency"])
        return f"Nothing is wrong: scaling is normal, with an efficiency of {share}."
    likely = [f"{row['name']} ({write_percent(row['probability'])})" for row in found["causes"][:2]]
    if found["efficiency"] > _MOST_EFFICIENT:
        return f"The numbers do not fit: more than each device can do alone. {_CHECK_UNITS}"
    if found["measure"]:
        return f"The numbers do not decide: {' or '.join(likely)}. {found['measure']}"
    best = f" What helps most: {found['remedies'][0]['name']}." if found["remedies"] else ""
    return f"The cause is: {likely[0]}.{best}"


def describe_cluster(
    link: str | None, within: str | None, between: str | None, per_node: int | None, most: int
) -> tuple[Cluster, bool]:
    """Return the cluster, and whether the link in question is known. Others may be any.

    Args:
        link: the only link: the name of one within a node, or of one between nodes.
        within: link of a device in its node.
        between: link of a node.
        per_node: devices of a node. Default: all, or 1 if a link between nodes is given.
        most: the largest number of devices.

    Raises:
        UserError: the options contradict each other, or a link is not known.
    """
    if link is not None:
        if within or between:
            raise UserError("--link: is the only link; give --within and --between instead")
        within, between = (link, None) if is_within(link) else (None, link)
    per_node = per_node or (1 if between else most)
    network = between_nodes(between) if between else _ANY_NETWORK
    known = between if most > per_node else within
    return Cluster(per_node, within_node(within or "unknown"), network), bool(known)


def _sum(parts: Mapping[str, Floats], absent: tuple[str, ...] = ()) -> Floats:
    return np.asarray(np.sum([x for name, x in parts.items() if name not in absent], axis=0))


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    order = np.argsort(values)
    place = np.searchsorted(np.cumsum(weights[order]), share * weights.sum())
    return float(values[order][min(place, len(values) - 1)])
