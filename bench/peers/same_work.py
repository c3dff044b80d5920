"""Train ten steps with a strategy on given examples; print the loss of each. Run as a process.

    python same_work.py STRATEGY MODEL NODES BATCH OUT

To make runs comparable, every worker starts from the same weights, and there is no dropout. The
first strategy writes the weights and examples that the others use to OUT: weights.npz and
examples.npz.
"""

import json
import sys
from functools import partial
from pathlib import Path

from nodewise.cluster import lock, process
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.local import LocalProcesses
from nodewise.measure.environment import settle_environment
from nodewise.models.registry import registry
from nodewise.strategies import STRATEGIES

STEPS, SEED, TIME_LIMIT_S = 10, 3, 180


def manifest_of(model: str) -> Path:
    """Return the path of the manifest of a model's prepared examples."""
    return Path("results/datasets", registry()[model].dataset, "manifest.json")


def main(strategy: str, model: str, nodes: int, batch: int, out: Path) -> None:
    """Train and print the losses."""
    settle_environment()
    with lock.exclusive_machine(), (cluster := LocalProcesses(nodes)).open():
        parts = process.Job(
            nodes,
            partial(train, cluster=cluster, strategy=strategy, model=model, batch=batch, out=out),
            logs=out / strategy,
            time_limit_s=TIME_LIMIT_S,
            preload=["nodewise.measure.worker"],
        ).run()
    print(json.dumps([sum(step) for step in zip(*(part["losses"] for part in parts), strict=True)]))


def train(
    rank: int,
    channel: Channel,
    *,
    cluster: LocalProcesses,
    strategy: str,
    model: str,
    batch: int,
    out: Path,
) -> Message:
    import keras
    import numpy as np
    import tensorflow as tf

    from nodewise import data as datasets
    from nodewise.measure.node import start_in_node
    from nodewise.models import registry as models
    from nodewise.strategies.api import Job, plain

    nodes, module = len(cluster.addresses()), models.load(model)
    entry = STRATEGIES[strategy]
    data = datasets.load(manifest_of(model))
    rows = np.random.default_rng(SEED).permutation(len(data.train[1]))[: STEPS * nodes * batch]
    steps = rows.reshape(STEPS, nodes * batch)
    x, y = data.train[0][steps], data.train[1][steps]

    def build() -> keras.Model:
        built = module.build()
        for layer in built.layers:
            if isinstance(layer, keras.layers.Dropout):
                layer.rate = 0
        return built

    start_in_node(cluster, rank, channel, nodes)
    trained = (
        STRATEGIES[strategy]
        .worker()
        .Strategy(
            Job(
                rank,
                nodes,
                nodes * batch,
                SEED,
                build,
                options=entry.checked({}, nodes),
                addresses=tuple(cluster.addresses()),
            )
        )
    )
    if rank == 0 and not (out / "weights.npz").exists():
        np.savez(out / "weights.npz", *trained.weights())
        np.savez(out / "examples.npz", x=x, y=y)
    mine = slice(None) if entry.whole_batches else slice(rank * batch, (rank + 1) * batch)
    losses = []
    for a, b in zip(x, y, strict=True):
        trained.model.reset_metrics()
        logs = plain(trained.step((tf.constant(a[mine]), tf.constant(b[mine]))))
        losses.append(logs["loss"] / (1 if entry.one_process else nodes))
    trained.barrier()
    return {"losses": losses}


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
