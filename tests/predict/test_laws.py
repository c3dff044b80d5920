"""The laws of training times, compared with results by hand and with brute force."""

from fractions import Fraction

import numpy as np
import pytest

from law_times import step_s
from mistakes import user_error
from nodewise.predict.law import LAWS
from nodewise.predict.points import Points

RING = LAWS["ring"]


def none(law):
    """Return coefficients that are all 0."""
    return {c.name: 0.0 for c in law.parameters}


# --- one law after the other ---


@pytest.mark.parametrize("nodes", [1, 2, 4, 8, 32])
@pytest.mark.parametrize(
    ("law", "messages"),
    [
        (RING, lambda nodes, payload: [payload / nodes] * 2 * (nodes - 1)),
        (
            LAWS["tree"],
            lambda nodes, payload: 2 * [payload / 2**k for k in range(1, nodes.bit_length())],
        ),
        (LAWS["star"], lambda nodes, payload: [payload] * 2 * (nodes - 1)),
    ],
)
def test_an_all_reduce_takes_the_messages_of_its_algorithm(law, messages, nodes):
    """Count the messages in sequence and their bytes, with exact fractions."""
    sent = messages(nodes, Fraction(96))
    at = Points.of(nodes, 1, 96)
    assert law.seconds(none(law) | {"latency_s": 1.0}, at)["communicate"] == len(sent)
    # a star's driver that begins to send when all is summed
    p = none(law) | {"seconds_per_byte": 1.0, "turns_share": 1.0}
    assert law.seconds(p, at)["communicate"] == pytest.approx(float(sum(sent)))


def test_averaging_is_a_ring_now_and_then_and_waits_less():
    laws = RING, *(LAWS["averaging"].with_settings(period=period) for period in (1, 25))
    p = {c.name: 0.5 for c in RING.parameters} | {"hidden_share": 0.0}
    shown, every, fifth = (law.seconds(p, Points.of([1, 2, 5], 8, 1e6)) for law in laws)
    assert every["step"] == pytest.approx(shown["step"])
    assert fifth["communicate"] == pytest.approx(shown["communicate"] / 25)
    assert fifth["wait"] == pytest.approx(shown["wait"] / 5)


def test_averaging_waits_as_simulated_nodes_do():
    nodes, period, spells = 4, 9, 4000
    times = np.random.default_rng(7).normal(1.0, 0.1, (spells, nodes, period))
    slowest = times.sum(axis=2).max(axis=1) / period
    law = LAWS["averaging"].with_settings(period=period)
    p = none(law) | {"compute_fixed_s": 1.0, "jitter_share": 0.1}
    assert step_s(law, p, nodes, 1, 0) == pytest.approx(
        slowest.mean(), abs=4 * slowest.std() / spells**0.5
    )


def test_compressed_gradients_by_hand():
    law = LAWS["compressed"].with_settings(density=0.1)
    p = none(law) | {"latency_s": 1.0, "seconds_per_byte": 2.0, "codec_seconds_per_byte": 3.0}
    # 100 bytes, messages of 10 bytes: 100 + 10n bytes are coded, n − 1 messages are sent
    found = law.seconds(p, Points.of([1, 2, 4], 1, 100.0))["communicate"]
    assert found == pytest.approx([3 * 110, 3 * 120 + 21, 3 * 140 + 63])


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("micro_batches", [1, 2, 7])
def test_a_pipeline_takes_as_long_as_its_schedule(stages, micro_batches):
    """Simulate the schedule: a stage sends each result on before it computes the next one."""
    batch, c0, c1, alpha, beta, activations = 6, 0.5, 0.25, 0.125, 2e-3, 10.0
    examples = stages * batch / micro_batches
    sending = 2 * (alpha + activations * examples * beta) if stages > 1 else 0.0
    turn = c0 + c1 * examples / stages
    free = [0.0] * stages
    for _ in range(micro_batches):
        done = 0.0
        for stage in range(stages):
            last = stage == stages - 1
            done = free[stage] = max(free[stage], done) + turn + (0.0 if last else sending)
    law = LAWS["gpipe"].with_settings(micro_batches=micro_batches, activation_bytes=activations)
    p = none(law) | {"compute_fixed_s": c0, "compute_per_example_s": c1}
    p |= {"latency_s": alpha, "seconds_per_byte": beta}
    assert step_s(law, p, stages, batch, 123.0) == pytest.approx(done)
    at, bubble = Points.of(stages, batch, 0), (stages - 1) / (micro_batches + stages - 1)
    idle, busy = law.seconds(p, at)["wait"], law.seconds(p, at)["compute"]
    assert idle / (idle + busy) == pytest.approx(bubble)


# --- parameter servers ---


def queued(workers, think, demands):
    """Return the seconds of a step in a closed network, by exact mean-value analysis."""
    waiting = [0.0] * len(demands)
    for count in range(1, workers + 1):
        times = [d * (1 + waits) for d, waits in zip(demands, waiting, strict=True)]
        step = think + sum(times)
        waiting = [count / step * time for time in times]
    return step


@pytest.mark.parametrize("servers", [1, 2])
@pytest.mark.parametrize("workers", [1, 2, 5, 40])
def test_workers_queue_as_in_an_exact_mean_value_analysis(servers, workers):
    law = LAWS["server"].with_settings(servers=servers)
    p = none(law) | {"compute_fixed_s": 0.5, "compute_per_example_s": 0.05, "latency_s": 0.05}
    p |= {"seconds_per_byte": 0.1, "service_s": 0.2}
    resources = 2 * servers
    exact = queued(workers, 0.8, [0.8 / resources] * resources)
    assert step_s(law, p, workers, batch=4, payload=3) == pytest.approx(exact, rel=0.06)
    if workers == 1:
        assert exact == pytest.approx(1.6)


# --- settings ---


@pytest.mark.parametrize(
    ("law", "wrong"),
    [
        ("server(servers=0)", "servers: must be 1 or more, not 0.0"),
        ("averaging(period=0)", "period: must be 1 or more, not 0.0"),
        ("compressed(density=0)", "density: must be 1e-09 or more, not 0.0"),
        ("gpipe(micro_batches=1, activation_bytes=-1)", "activation_bytes: must be 0 or more"),
        ("gpipe(activation_bytes=1)", "gpipe(micro_batches=…, activation_bytes=…)"),
        ("ring(period=1)", "law ring: must be written ring"),
    ],
)
def test_impossible_structure_is_refused(law, wrong):
    assert wrong in user_error(LAWS.make, law)


# --- hiding and waiting ---


def test_the_mean_of_the_largest_of_a_few():
    """Compare with closed forms where they exist, and with tabulated values elsewhere."""
    nodes = [1, 2, 3, 4, 5, 10, 100]
    exact = [0, np.pi**-0.5, 1.5 * np.pi**-0.5, 1.02938, 1.16296, 1.53875, 2.50759]
    at = Points.of(nodes, 1, 1)
    waited = RING.seconds(none(RING) | {"jitter_s": 1.0}, at)["wait"]
    assert waited == pytest.approx(exact, rel=1e-3, abs=1e-12)
