"""Best numbers of nodes in closed form, for the laws that have one.

The closed forms check and explain the numeric optimum. They assume that jitter, excess input and
the deviation of a batch from the line of compute are 0; the numeric optimum does not.

Each function returns a real number n ≥ 1 at which the law has its minimum. 1 means that one node is
best. Infinity means that there is no interior optimum: by the law, more nodes are always better.
None means that the law has no closed form, as for every all-reduce with overlap. Where no source is
given, the derivative by n was set to 0.

Arguments: `p` has the value of each coefficient, `batch` is b examples per worker, `global_batch`
is G = n·b examples per step, and `payload` is S bytes of one gradient. They may be arrays; results
have their broadcast shape. A = c₀ + c₁·b; all other letters are those of the laws.
"""

import numpy as np
from numpy.typing import ArrayLike

from nodewise.predict.law import At, Floats, Law, Values
from nodewise.predict.laws.amdahl import Amdahl
from nodewise.predict.laws.averaging import ParameterAveraging
from nodewise.predict.laws.compressed import CompressedAllGather
from nodewise.predict.laws.ernest import Ernest
from nodewise.predict.laws.halving_doubling import HalvingDoubling
from nodewise.predict.laws.none import NoExchange
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.laws.star import Star
from nodewise.predict.laws.tree import BinomialTree
from nodewise.predict.laws.usl import Usl
from nodewise.predict.parts_law import AllReduce, PartsLaw

_LN2 = float(np.log(2))


def best_at_global_batch(
    law: Law, p: Values, global_batch: ArrayLike, payload: ArrayLike
) -> Floats | None:
    """Return the n with the shortest epoch at a fixed global batch G.

    It is the n at which t(n) is least, where b = G/n.

    - Ring: √((c₁G − 2Sβ)/2α)
    - Averaging: √((τc₁G − 2Sβ)/2α)
    - Halving-doubling: ln2·(c₁G − 2Sβ)/2α
    - Tree: ln2·c₁G/2(α + Sβ)
    - Star: √(c₁G/(2α + (1 + w)Sβ))
    - Compressed: √(c₁G/(α + ρS(β + k)))
    """
    if not _is_sum(law):
        return None
    c0, c1g, alpha, sent = _terms(p, global_batch, payload)
    match law:
        case NoExchange():
            best = _ratio(c1g, np.zeros_like(c1g))
        case RingAllReduce():
            best = np.sqrt(_ratio(c1g - 2 * sent, 2 * alpha))
        case ParameterAveraging(period=period):
            best = np.sqrt(_ratio(period * c1g - 2 * sent, 2 * alpha))
        case HalvingDoubling():
            best = _LN2 * _ratio(c1g - 2 * sent, 2 * alpha)
        case BinomialTree():
            best = _LN2 * _ratio(c1g, 2 * (alpha + sent))
        case Star() | CompressedAllGather():
            _, each = _line(law, p, c0 + c1g, payload)
            best = np.sqrt(_ratio(c1g, each))
        case _:
            return None
    return np.maximum(best, 1.0)


def best_at_worker_batch(
    law: Law, p: Values, batch: ArrayLike, payload: ArrayLike
) -> Floats | None:
    """Return the n with the shortest epoch at a fixed batch per worker b.

    It is the n at which t(n)/n is least.

    There is no interior optimum: t(n)/n approaches a limit
    as n grows: 2α for a ring, 2α/τ with averaging, 2α + (1 + w)Sβ for a star, α + ρS(β + k) for
    compressed gradients, and 0 for all others. The result is infinity if one node takes longer than
    the limit, else 1.

    Of the baselines, USL has its optimum at √((1 − σ)/κ), and Pollux has no closed form. The others
    have no interior optimum either.
    """
    if not isinstance(law, PartsLaw):
        return _best_of_baseline(law, p)
    if not _is_sum(law):
        return None
    c0, c1b, alpha, _ = _terms(p, batch, payload)
    compute = c0 + c1b
    match law:
        case NoExchange() | HalvingDoubling() | BinomialTree():
            saved = compute
        case RingAllReduce():
            saved = compute - 2 * alpha
        case ParameterAveraging(period=period):
            saved = compute - 2 * alpha / period
        case Star() | CompressedAllGather():
            saved, _ = _line(law, p, compute, payload)
        case _:
            return None
    return np.where(saved > 0, np.inf, 1.0)


def break_even(law: Law, p: Values, batch: ArrayLike, payload: ArrayLike) -> Floats | None:
    """Return the n above which an epoch is shorter than on one node, at a fixed batch per worker.

    - Ring: 2Sβ/(A − 2α), or infinity (never) if A ≤ 2α, because each node then costs more time for
      messages than it saves.
    - Averaging: the same with α/τ and β/τ.
    - Star: 1 (every further node pays) if A > 2α + (1 + w)Sβ, else infinity.
    - Compressed gradients: 1 if A + k·S > α + ρSβ, else infinity.
    """
    if not _is_sum(law):
        return None
    c0, c1b, alpha, sent = _terms(p, batch, payload)
    compute = c0 + c1b
    match law:
        case NoExchange():
            saved, lost = compute, np.zeros_like(compute)
        case RingAllReduce():
            saved, lost = compute - 2 * alpha, 2 * sent
        case ParameterAveraging(period=period):
            saved, lost = compute - 2 * alpha / period, 2 * sent / period
        case Star() | CompressedAllGather():
            saved, _ = _line(law, p, compute, payload)
            lost = np.zeros_like(saved)
        case _:
            return None
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(saved > 0, np.maximum(lost / saved, 1.0), np.inf)


def best_to_accuracy(
    law: Law, p: Values, batch: ArrayLike, payload: ArrayLike, noise_nodes: ArrayLike
) -> Floats | None:
    """Return the n with the shortest training to an accuracy, at a fixed batch per worker.

    The number of steps is proportional to 1 + ν/n, where ν is the critical batch divided by b
    (S. McCandlish et al., An empirical model of large-batch training, 2018, arXiv:1812.06162).

    - Star: √(ν(A − κ)/κ) with κ = 2α + (1 + w)Sβ
    - Ring: the larger root of 2αn³ − (νP − Q)n + 2νQ with P = A − 2α + 2Sβ and Q = 2Sβ, or 1 if one
      node is as fast
    """
    if not _is_sum(law):
        return None
    c0, c1b, alpha, sent = _terms(p, batch, payload)
    noise = np.asarray(noise_nodes, dtype=np.float64)
    match law:
        case Star():
            fixed, each = _line(law, p, c0 + c1b, payload)
            return np.maximum(np.sqrt(_ratio(noise * fixed, each)), 1.0)
        case RingAllReduce():
            return _ring_to_accuracy(c0 + c1b, alpha, sent, noise)
    return None


def _best_of_baseline(law: Law, p: Values) -> Floats | None:
    """Return the n at which t(n)/n of a baseline is least, in the shape of the coefficients."""
    match law:
        case Usl():
            best = np.sqrt(_ratio(np.asarray(1 - p["contention"]), np.asarray(p["coherency"])))
            return np.maximum(best, 1.0)
        case Amdahl():
            saved = p["parallel_s"]
        case Ernest():
            saved = p["constant_s"]
        case _:
            return None
    return np.where(np.asarray(saved) > 0, np.inf, 1.0)


def _ring_to_accuracy(compute: Floats, alpha: Floats, sent: Floats, noise: Floats) -> Floats:
    """Return the n ≥ 1 at which (1 + ν/n)·(P + 2αn − Q/n) is least.

    The function grows, falls and grows again. The roots of its derivative are those of
    n³ − 3r²n + νQ/α; the larger one is 2r·cos(⅓ arccos(−νQ/2αr³)). Without latency (α = 0) it falls
    forever.
    """
    lost = 2 * sent
    fixed = compute - 2 * alpha + lost
    falls = noise * fixed - lost
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        reach = np.sqrt(falls / (6 * alpha))
        angle = np.arccos(-noise * lost / (2 * alpha * reach**3))
        n = np.where(alpha > 0, 2 * reach * np.cos(angle / 3), np.inf)
        time = np.where(np.isinf(n), fixed, (1 + noise / n) * (fixed + 2 * alpha * n - lost / n))
        return np.where((n > 1) & (time < (1 + noise) * compute), n, 1.0)


def _is_sum(law: Law) -> bool:
    """Return whether a step is a plain sum of parts, as the closed forms assume."""
    return isinstance(law, PartsLaw) and not (isinstance(law, AllReduce) and law.overlap != 1)


def _terms(
    p: Values, examples: ArrayLike, payload: ArrayLike
) -> tuple[Floats, Floats, Floats, Floats]:
    """Return c₀, c₁·examples, α and Sβ in seconds, broadcast to one shape."""
    per_example = np.asarray(p["compute_per_example_s"] * np.asarray(examples, dtype=np.float64))
    per_payload = np.asarray(p["seconds_per_byte"] * np.asarray(payload, dtype=np.float64))
    c0, c1, alpha, sent = np.broadcast_arrays(
        np.asarray(p["compute_fixed_s"], dtype=np.float64),
        per_example,
        np.asarray(p["latency_s"], dtype=np.float64),
        per_payload,
    )
    return c0, c1, alpha, sent


def _line(
    law: Star | CompressedAllGather, p: Values, compute: Floats, payload: ArrayLike
) -> tuple[Floats, Floats]:
    """Return F and κ in seconds of a law that is linear in n, t = F + κ·n.

    They follow from the times on one and on two nodes; `compute` is A, the seconds of computing.
    """
    one, two = (law.communicate_s(p, At.of(n, 1.0, payload)) for n in (1, 2))
    return np.asarray(compute + 2 * one - two), np.asarray(two - one)


def _ratio(gain: Floats, cost: Floats) -> Floats:
    """Return gain/cost: 0 where nothing is gained, infinity where a gain has no cost."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.where(gain > 0, gain / cost, 0.0)
