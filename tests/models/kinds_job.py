"""Train small models of many kinds: as Keras does, and with strategies on several workers.

`main(out, kinds, case)` trains each of `kinds` (names in `kinds.KINDS`) on all whole global batches
of its data, always in the same order. Worker RANK saves OUT/KIND~RANK.npz: the final weights, and
the loss that a Keras history would show. OUT/KIND.txt says why a kind was refused or failed.
"""

import contextlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import kinds as kind_table
import local_job
from nodewise.cluster import process
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.local import LocalProcesses
from nodewise.core.errors import RefusedError
from nodewise.measure.block_job import check_replicas
from nodewise.strategies import STRATEGIES

GLOBAL_BATCH, SEED = 12, 3


class Fit(NamedTuple):
    """Train with Keras' own `fit`, on request with changed gradients.

    If `dense`, gradients of embeddings are first made dense. Then all gradients are multiplied by
    `factor` and applied `times` in a row. With `first_of` n workers, the model trains on the
    examples of the first worker only.
    """

    dense: bool = False
    factor: int = 1
    times: int = 1
    first_of: int = 1


class Averaged(NamedTuple):
    """Train several models with Keras, each on its part of the batch, and average their weights."""

    models: int


class Case(NamedTuple):
    """Train with a strategy on `nodes` nodes.

    With `same_examples`, all workers get the examples of the first one. With `split`, a split step
    is also run; its effect is undone before training.
    """

    strategy: str
    nodes: int
    options: tuple[tuple[str, Any], ...] = ()
    same_examples: bool = False
    split: bool = False


# Objects that a process can create only once: later kinds reuse those of the first kind.
ONCE = ("RingAllReduce", "Ranks", "Horovod", "_start", "Peers", "_on_devices")


def main(out: Path, kinds: list[str], case: Fit | Averaged | Case) -> None:
    """Train the kinds one after the other.

    A kind that fails ends its processes; the remaining kinds then train in new ones.
    """
    workers, servers, at_once = 1, 0, len(kinds)
    if isinstance(case, Case):
        entry = STRATEGIES[case.strategy]
        workers = 1 if entry.one_process else case.nodes
        servers = local_job.servers(case)
        at_once = 1 if servers else len(kinds)
    cluster = LocalProcesses(workers + servers)
    with cluster.open():
        for first in range(0, len(kinds), at_once):
            left = kinds[first : first + at_once]
            while left:
                done, said = _launch(out, left, case, cluster, workers + servers)
                if said:
                    (out / f"{left[done]}.txt").write_text(said)
                left = left[done + 1 :]


def _launch(
    out: Path, kinds: list[str], case: Fit | Averaged | Case, cluster: LocalProcesses, size: int
) -> tuple[int, str]:
    """Train kinds in the same processes; return how many succeeded and why the next one failed."""
    begun: list[int] = []
    replicas: set[str] = set()

    def heard(rank: int, message: Message) -> None:
        if "replica" in message:
            replicas.add(message["replica"])
        elif rank == 0:
            begun.append(message["kind"])
            replicas.clear()

    def met(name: str, _: list[int]) -> None:
        if name == "trained":
            check_replicas(replicas)
            replicas.clear()

    work = partial(train, cluster=cluster, kinds=kinds, case=case, out=out)
    limit_s, preload = 30 + 30 * len(kinds), ["nodewise.measure.worker"]
    job = process.Job(size, work, logs=out / kinds[0], time_limit_s=limit_s, preload=preload)
    job.on_message, job.on_meeting = heard, met
    try:
        job.run()
    except RefusedError as error:
        return begun[-1], f"refused: {error}"
    except process.WorkerError as error:
        return begun[-1], "\n".join([str(error), *error.log_tail])
    return len(kinds), ""


def train(
    rank: int,
    channel: Channel,
    *,
    cluster: LocalProcesses,
    kinds: list[str],
    case: Fit | Averaged | Case,
    out: Path,
) -> Message:
    import keras
    import numpy as np

    from nodewise.measure import node

    node.start_in_node(cluster, rank, channel, case.nodes if isinstance(case, Case) else 1)
    if isinstance(case, Case):
        keep_what_is_there_once(STRATEGIES[case.strategy].worker())
    for number, kind in enumerate(kinds):
        channel.send({"kind": number})
        match case:
            case Fit():
                weights, loss = fit(kind, case)
            case Averaged():
                weights, loss = averaged(kind, case.models)
            case Case():
                trained = by(case, rank, cluster, kind, channel)
                if trained is None:
                    return {}
                weights, loss = trained
        named = {
            f"{number:03}": np.asarray(weight.numpy()).astype("float32")
            for number, weight in enumerate(weights)
            if "rnn_state" not in weight.path  # states that belong to a worker's own examples
        }
        np.savez(out / f"{kind}~{rank}.npz", loss=loss, **named)
        keras.backend.clear_session()
    return {}


def keep_what_is_there_once(module: Any) -> None:
    """Make functions of a strategy's module that are in ONCE always return their first result."""

    def kept(make: Callable[..., Any]) -> Callable[..., Any]:
        found: list[Any] = []

        def first(*arguments: Any, **more: Any) -> Any:
            if not found:
                found.append(make(*arguments, **more))
            return found[0]

        return first

    for name in ONCE:
        if hasattr(module, name):
            setattr(module, name, kept(getattr(module, name)))


def building(kind: str, batch: int) -> Callable[[], Any]:
    """Return the function that builds the kind's model, as for a user's own model.

    The model `stateful` is built for a number of examples per batch.
    """
    from nodewise.models import user_model

    if kind == "stateful":
        return partial(kind_table.builder(kind), batch)
    return user_model.building(kind_table.spec(kind))


def examples(kind: str) -> Any:
    """Return the kind's training examples as one batch, as `fit` passes it to train_step."""
    import tensorflow as tf

    data = tf.nest.map_structure(tensor, kind_table.load(kind)[0])
    return data[0] if len(data) == 1 else data


def tensor(array: Any) -> Any:
    """Return an array in the form in which `fit` passes it to train_step."""
    import tensorflow as tf

    if isinstance(array, tf.RaggedTensor):
        return array
    float64 = array.dtype in ("float64", tf.float64)
    return tf.cast(array, tf.float32) if float64 else tf.convert_to_tensor(array)


def count(data: Any) -> int:
    import tensorflow as tf

    return int(tf.nest.flatten(data)[0].shape[0])


def steps(data: Any) -> int:
    """Return the steps per epoch; examples that fill no whole batch are left out."""
    return count(data) // GLOBAL_BATCH


def part(data: Any, step: int, worker: int, workers: int) -> Any:
    """Return a worker's part of the global batch of a step."""
    import tensorflow as tf

    own = GLOBAL_BATCH // workers
    start = step * GLOBAL_BATCH + worker * own
    return tf.nest.map_structure(lambda array: array[start : start + own], data)


def fit(kind: str, how: Fit) -> tuple[list[Any], float]:
    import keras
    import numpy as np
    import tensorflow as tf

    from nodewise.models.contents import optimizers_of

    own = GLOBAL_BATCH // how.first_of
    keras.utils.set_random_seed(SEED)
    build = kind_table.builder(kind)
    made = build(own) if kind == "stateful" else build()
    model, options = made if isinstance(made, tuple) else (made, {})
    if how != Fit():
        for optimizer in optimizers_of(model):
            optimizer.apply = partial(changed, optimizer.apply, how)
    data, test = kind_table.load(kind)
    if how.first_of > 1 or count(data) % GLOBAL_BATCH:
        rows = np.arange(steps(data) * GLOBAL_BATCH).reshape(-1, GLOBAL_BATCH)[:, :own].ravel()
        data = tf.nest.map_structure(lambda array: tf.gather(array, rows), data)
    named = dict(zip(("x", "y", "sample_weight"), data, strict=False))
    if options.get("callbacks"):
        options |= {"epochs": kind_table.KINDS[kind].epochs, "validation_data": test}
    history = model.fit(**named, batch_size=own, shuffle=False, verbose=0, **options).history
    return model.weights, history.get("loss", [0.0])[-1]


def changed(
    apply: Callable[..., None], how: Fit, grads: Any, trainable_variables: Any = None
) -> None:
    import tensorflow as tf

    given = list(grads)
    if how.dense:
        given = [one if one is None else tf.convert_to_tensor(one) for one in given]
    given = [one if one is None else one * how.factor for one in given]
    for _ in range(how.times):
        apply(given, trainable_variables)


def averaged(kind: str, size: int) -> tuple[list[Any], float]:
    import keras
    import numpy as np
    import tensorflow as tf

    from nodewise.models.contents import optimizers_of
    from nodewise.strategies import api
    from nodewise.strategies.parameter_averaging.worker import averages

    models = []
    for worker in range(size):
        keras.utils.set_random_seed(SEED)
        models.append(building(kind, GLOBAL_BATCH // size)())
        api.set_dropout_seed(models[-1], worker)
    data = examples(kind)

    def average(of: Callable[[Any], list[Any]]) -> None:
        for same in zip(*map(of, models), strict=True):
            mean = np.mean([np.asarray(one.numpy()).astype("float32") for one in same], axis=0)
            for one in same:
                one.assign(mean.astype(one.numpy().dtype))

    trains = [tf.function(model.train_step, autograph=False) for model in models]
    for step in range(steps(data)):
        logs = [train(part(data, step, worker, size)) for worker, train in enumerate(trains)]
        average(lambda model: [*filter(api.is_trained, api.changing(model))])
    average(api.moving_statistics)
    average(lambda model: [one for two in optimizers_of(model) for one in averages(two)])
    models[0].optimizer.finalize_variable_values(models[0].trainable_variables)
    return models[0].weights, float(np.mean([log.get("loss", 0.0) for log in logs]))


def by(
    case: Case, rank: int, cluster: LocalProcesses, kind: str, channel: Channel
) -> tuple[list[Any], float] | None:
    """Return the weights and the loss after training in this worker; None for a server."""
    import tensorflow as tf

    from nodewise.strategies import api

    entry = STRATEGIES[case.strategy]
    nodes = 1 if entry.whole_batches else case.nodes
    # Build the spec in another graph: a strategy must find TensorFlow unused.
    with tf.Graph().as_default():
        spec = tf.nest.map_structure(
            lambda one: (
                tf.TensorSpec((GLOBAL_BATCH // nodes, *one.shape[1:]), one.dtype)
                if not isinstance(one, tf.RaggedTensor)
                else tf.RaggedTensorSpec((None, None), one.dtype)
            ),
            examples(kind),
        )
    build = building(kind, GLOBAL_BATCH // nodes)
    addresses = tuple(cluster.addresses())
    job = local_job.make_job(case, rank, addresses, build, GLOBAL_BATCH, batch=spec)
    if rank >= case.nodes:
        entry.worker().Server(job)
        channel.meet("trained")
        return None
    if rank and hasattr(entry.worker(), "check"):  # as is done before any node starts
        entry.worker().check(job)
    trained = entry.worker().Strategy(job)
    initial = trained.state()
    data = examples(kind)
    worker = 0 if case.same_examples else rank
    batches = [part(data, step, worker, nodes) for step in range(steps(data))]
    for batch in batches[:2]:  # The effect of these steps is undone by `restore` below.
        trained.step(batch)
    if trained.replicas_agree:
        channel.send({"replica": trained.weights_sha256()})
    channel.meet("trained")
    if case.split:
        with contextlib.suppress(api.NotTimedError):
            trained.split_step(batches[0])
    trained.restore(initial)
    trained.barrier()  # Otherwise a slow worker would pull what others have already pushed.
    epochs = kind_table.KINDS[kind].epochs
    called = callbacks(trained, kind, rank, nodes, channel)
    if called:
        called.begin()
    for epoch in range(epochs):
        trained.model.reset_metrics()
        for batch in batches:
            logs = api.plain(trained.step(batch))
        if called:
            called.end_epoch(epoch, logs)
    trained.agree()
    if trained.model.optimizer.built:
        trained.model.optimizer.finalize_variable_values(trained.model.trainable_variables)
    return trained.model.weights, logs.get("loss", 0.0)


def callbacks(trained: Any, kind: str, rank: int, workers: int, channel: Channel) -> Any:
    """Return the callbacks of a worker's model, as of a cell's; None if it has none."""
    from nodewise.data import Dataset
    from nodewise.measure import worker
    from nodewise.models.training import Recipe

    extent = SimpleNamespace(steps=None, epochs=kind_table.KINDS[kind].epochs)
    cell = SimpleNamespace(global_batch=GLOBAL_BATCH, workers=workers, extent=extent)
    data = Dataset(None, *kind_table.load(kind))
    return worker._callbacks(cell, trained, Recipe(None), data, channel=channel, rank=rank)
