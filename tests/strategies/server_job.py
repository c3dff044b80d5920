"""Train with servers on n workers; see `local_job.train_cases`.

The weights of the model `clock` tell their age: they begin at 0, and every update takes 1 from
each. `net` is a small network with batch normalisation that trains on random examples, `wide` a
larger one, and `words` one with an embedding. Cases with these models also save weights and moving
statistics as OUT/CASE/FORM~RANK.npz.
"""

import math
import time
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import local_job
from nodewise.cluster.channel import Channel, Message
from nodewise.strategies import STRATEGIES

BATCH, FEATURES = 8, 5


class Case(NamedTuple):
    """What a job trains; `sleep_s` is how long each worker sleeps before a step."""

    nodes: int
    strategy: str = "async_sgd"
    options: dict[str, Any] = {}  # noqa: RUF012
    model: str = "clock"
    optimizer: str = "sgd"
    steps: int = 20
    sleep_s: list[float] = []  # noqa: RUF012
    hit: int | None = None


def run_all(run_job: Any, out: Path, cases: dict[str, dict[str, Any]], **usual: Any) -> None:
    """Run cases, each given by the fields in which it differs from `usual`."""
    made = {name: Case(**(usual | case)) for name, case in cases.items()}
    run_job(local_job.train_cases, out, made, train)


def train(
    rank: int, addresses: tuple[str, ...], channel: Channel, *, case: Case, out: Path
) -> Message:
    """Train in the split form, reset, train in the fused form, and let the workers agree.

    At last, a strategy that dispatches steps ahead trains some on batches that are read late.
    """
    import numpy as np
    import tensorflow as tf

    from nodewise.strategies import api

    with tf.Graph().as_default():  # a strategy must find TensorFlow unused
        spec = tuple(tf.TensorSpec(one.shape, one.dtype) for one in batches_of(case, rank)[0])
    build = partial(compiled, case)
    job = local_job.make_job(case, rank, addresses, build, case.nodes * BATCH, batch=spec)
    if rank >= case.nodes:
        STRATEGIES[case.strategy].worker().Server(job)
        channel.meet("go")
        return {}
    strategy, batches = STRATEGIES[case.strategy].worker().Strategy(job), batches_of(case, rank)

    def save(form: str) -> None:
        if case.model != "clock":
            statistics = [v.numpy() for v in api.moving_statistics(strategy.model)]
            np.savez(out / f"{form}~{rank}.npz", *strategy.weights(), *statistics)

    initial = strategy.state()
    timed = case.strategy != "parameter_server"  # its steps have no parts
    for batch in batches if case.model != "clock" else batches[:1]:
        strategy.split_step(batch) if timed else strategy.step(batch)
    strategy.barrier()  # a step ends when its gradient is sent, not when it is applied
    save("split")
    strategy.restore(initial)
    # Every input pipeline sets the seed. This waits for everything that is under way.
    tf.random.set_seed(rank)
    strategy.observations()
    channel.meet("go")
    strategy.barrier()
    begun, ages, last_ages = [], [0.0], [0.0]
    for batch in batches:
        time.sleep(case.sleep_s[rank] if case.sleep_s else 0)
        begun.append(time.monotonic())
        strategy.step(batch)
        ages.append(age(strategy))
        last_ages.append(age(strategy, -1))
    ended = time.monotonic()
    strategy.barrier()
    observed = strategy.observations()
    save("fused")
    strategy.agree()
    save("agreed")
    trained = {
        "begun": begun,
        "ended": ended,
        "ages": ages,
        "last_ages": last_ages,
        "final_age": age(strategy),
        "observed": observed,
        "sha256": strategy.weights_sha256(),
        "held": held(strategy),
    }
    if not timed:
        stream = iter(tf.data.Dataset.from_tensors(batches[0]).repeat())
        for _ in strategy.train(stream, 3):
            time.sleep(0.2)  # a step that is dispatched ahead waits for its batch meanwhile
        strategy.barrier()
    return trained


def held(strategy: Any) -> dict[str, int]:
    """Return how many weights each server holds; empty where there is no coordinator."""
    coordinator = getattr(strategy, "_coordinator", None)
    variables = coordinator.model.trainable_variables if coordinator else []
    counted: dict[str, int] = {}
    for variable in variables:
        for piece in getattr(variable.value, "variables", [variable.value]):
            counted[piece.device] = counted.get(piece.device, 0) + math.prod(piece.shape)
    return counted


def age(strategy: Any, weight: int = 0) -> float:
    """Return the age of a weight of the clock model, without rounding errors of sums of 1/24."""
    return round(-float(strategy.weights()[0].flat[weight]), 3)


def compiled(case: Case) -> Any:
    import keras
    from keras import layers, optimizers

    if case.model == "clock":
        dense = layers.Dense(1, use_bias=False, kernel_initializer="zeros")
        model = keras.Sequential([keras.Input((FEATURES,)), dense])
        # The gradient of this loss is 1, far above the labels.
        model.compile(optimizers.SGD(1.0), keras.losses.MeanAbsoluteError())
        return model

    class Broken(optimizers.SGD):
        def update_step(self, *_: Any) -> None:
            raise RuntimeError("broken")

    units = 30_000 if case.model == "wide" else 7
    first = [keras.Input((FEATURES,)), layers.Dense(units, activation="tanh")]
    if case.model == "words":
        first = [keras.Input((FEATURES,), dtype="int32"), layers.Embedding(4, 3), layers.Flatten()]
    model = keras.Sequential([*first, layers.BatchNormalization(), layers.Dense(3)])
    decay = optimizers.schedules.ExponentialDecay(0.1, 2, 0.5)
    optimizer = {
        "sgd_momentum": lambda: optimizers.SGD(0.1, 0.9, loss_scale_factor=4.0),
        "adam": lambda: optimizers.Adam(0.01, epsilon=1e-4),
        "decaying": lambda: optimizers.SGD(decay, momentum=0.9, gradient_accumulation_steps=2),
        "broken": Broken,
        "clipped": lambda: optimizers.SGD(0.1, clipnorm=1.0),
    }[case.optimizer]
    model.compile(optimizer(), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def batches_of(case: Case, rank: int) -> list[Any]:
    """Return the batches of a worker, (x, y) each."""
    import numpy as np
    import tensorflow as tf

    if case.model == "clock":
        return [(tf.ones([BATCH, FEATURES]), tf.fill([BATCH, 1], -1e6))] * case.steps
    random = np.random.default_rng(rank)
    shape = (case.steps, BATCH, FEATURES)
    if case.model == "words":  # in which words occur several times
        x = random.integers(0, 4, shape).astype(np.int32)
    else:
        x = random.normal(rank, 1, shape).astype(np.float32)
    y = random.integers(0, 9 if rank and case.model == "mislabelled" else 3, (case.steps, BATCH))
    return [(tf.constant(a), tf.constant(b)) for a, b in zip(x, y, strict=True)]
