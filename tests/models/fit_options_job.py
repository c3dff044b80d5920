"""Train models with options of `fit`: by `fit` itself, and with strategies on several workers.

`main(out, kinds, strategy, nodes)` trains each of `kinds`, modules of tests/fit_options, for epochs
of STEPS steps on the same global batches in the same order. Worker RANK saves OUT/KIND~RANK.npz:
the weights after them, and the loss that a history would show. Strategy `fit` is Keras' own.
"""

import importlib
from functools import partial
from pathlib import Path
from typing import Any

from nodewise.cluster import process
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.local import Local
from nodewise.core.errors import RefusedError

STEPS, GLOBAL_BATCH, SEED = 6, 8, 3


def main(out: Path, kinds: list[str], strategy: str, nodes: int) -> None:
    cluster = Local(nodes)
    with cluster.open():
        for kind in kinds:
            try:
                process.run(
                    nodes,
                    partial(train, cluster=cluster, kind=kind, strategy=strategy, out=out),
                    logs=out,
                    time_limit_s=60,
                    preload=["nodewise.measure.worker"],
                )
            except (process.WorkerError, RefusedError) as error:
                (out / f"{kind}.txt").write_text(str(error))


def train(
    rank: int, channel: Channel, *, cluster: Local, kind: str, strategy: str, out: Path
) -> Message:
    import numpy as np

    from nodewise.measure import node

    node.start_in_node(cluster, rank, channel, len(cluster.addresses()))
    module = importlib.import_module(f"fit_options.{kind}")
    how = fit if strategy == "fit" else partial(by, strategy, rank, cluster, channel)
    weights, loss = how(module)
    named = {f"{number:03}": array for number, array in enumerate(weights)}
    np.savez(out / f"{kind}~{rank}.npz", loss=loss, **named)
    return {}


def fit(module: Any) -> tuple[list[Any], float]:
    import keras

    keras.utils.set_random_seed(SEED)
    model = module.build()
    model, options = model if isinstance(model, tuple) else (model, {})
    train, test = module.load()
    history = model.fit(
        *train,
        validation_data=test,
        batch_size=GLOBAL_BATCH,
        epochs=getattr(module, "EPOCHS", 1),
        shuffle=False,
        verbose=0,
        **options,
    )
    return model.get_weights(), history.history.get("loss", [0.0])[-1]


def by(
    strategy: str, rank: int, cluster: Local, channel: Channel, module: Any
) -> tuple[list[Any], float]:
    import numpy as np
    import tensorflow as tf

    from nodewise.measure.callbacks import Callbacks
    from nodewise.models import user_model
    from nodewise.strategies import STRATEGIES, api

    nodes = len(cluster.addresses())
    own = GLOBAL_BATCH // nodes

    def kept(array: Any) -> Any:
        """Return an array as `fit` gives it to train_step."""
        return array.astype("float32") if array.dtype == "float64" else array

    train = tf.nest.map_structure(kept, module.load()[0])
    job = api.Job(
        rank,
        nodes,
        GLOBAL_BATCH,
        SEED,
        user_model.building(f"{module.__file__}:build"),
        options=STRATEGIES[strategy].checked({}, nodes),
        addresses=tuple(cluster.addresses()),
        batch=tf.nest.map_structure(lambda a: tf.TensorSpec((own, *a.shape[1:]), a.dtype), train),
    )
    trained = STRATEGIES[strategy].worker().Strategy(job)
    initial = trained.state()
    batches = [
        tf.nest.map_structure(
            lambda a, start=step * GLOBAL_BATCH + rank * own: tf.constant(a[start : start + own]),
            train,
        )
        for step in range(STEPS)
    ]
    trained.split_step(batches[0])  # does not stay
    trained.restore(initial)
    trained.model.reset_metrics()
    epochs = getattr(module, "EPOCHS", 1)
    validate = partial(tested, trained, tf.nest.map_structure(kept, module.load()[1]), rank, nodes)
    callbacks = Callbacks(
        trained.model, channel, workers=nodes, epochs=epochs, steps=STEPS, validate=validate
    )
    callbacks.begin()
    for epoch in range(epochs):
        trained.model.reset_metrics()
        for batch in batches:
            logs = api.plain(trained.step(batch))
        then = callbacks.end if epoch + 1 == epochs else callbacks.between
        then(epoch, logs)
    trained.agree()
    for optimizer in api.optimizers_of(trained.model):
        optimizer.finalize_variable_values(trained.model.trainable_variables)
    return [np.array(w) for w in trained.model.get_weights()], logs.get("loss", 0.0)


def tested(trained: Any, test: Any, rank: int, nodes: int) -> tuple[dict[str, float], int]:
    """Return what a worker scores of its part of the test examples, and how many these are."""
    import numpy as np
    import tensorflow as tf

    model = trained.trained()
    model.reset_metrics()
    part = tf.nest.map_structure(lambda array: np.array_split(array, nodes)[rank], test)
    logs = model.evaluate(*part, verbose=0, return_dict=True)
    return logs, len(tf.nest.flatten(part)[0])
