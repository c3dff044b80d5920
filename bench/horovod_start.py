"""Time a job of 3 workers from its start to its first timed step: cells compared with horovodrun.

Target: a cell of Horovod takes at most a third of the time of `horovodrun -np 3`.

All jobs train the same model on the same data with the same batch size: two steps that connect and
trace, two for warm-up, then the first timed step. A cell imports TensorFlow once and forks its
workers; horovodrun starts a Python process for each worker, as its users do.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import cell_start
import yaml

from nodewise.cluster import lock
from nodewise.strategies.horovod import build as horovod_build
from nodewise.study.config import read_config

NODES, BATCH, STEPS = 3, 32, 5
SITE = horovod_build.FOLDER.absolute() / "site"
STRATEGIES = ("horovod", "multi_worker_mirrored")
STUDY = {
    "name": "start",
    "title": "Start",
    "experiments": {
        "local": cell_start.experiment({"kind": "local"}, [NODES])
        | {"strategies": {name: {"nodes": [NODES]} for name in STRATEGIES}}
    },
}


def main() -> None:
    """Time all jobs in turns and print their times."""
    nodewise = [sys.executable, "-m", "nodewise"]
    cell_start.prepare()
    subprocess.run([*nodewise, "prepare", "horovod"], check=True)
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "study.yaml")
        config.write_text(yaml.safe_dump(STUDY))
        ways: dict[str, cell_start.Start] = {
            f"cell of {cell.strategy}": partial(cell_start.started, cell, config)
            for cell in read_config(config).cells()
        }
        ways["horovodrun"] = partial(horovodrun, Path(folder))
        for start in ways.values():
            start()  # not timed: the first run reads files from the disk
        taken = cell_start.by_turns(ways)
    for way, starts in taken.items():
        cell_start.tell(f"{NODES} workers, {way}", starts)
        if way != "horovodrun":
            tell_ratio(starts, taken["horovodrun"])


def tell_ratio(starts: list[dict[str, float]], others: list[dict[str, float]]) -> None:
    """Print the ratios to the times of `others`, turn by turn."""
    pairs = zip(starts, others, strict=True)
    ratios = [a["first_timed_step_s"] / b["first_timed_step_s"] for a, b in pairs]
    median, low, high = statistics.median(ratios), min(ratios), max(ratios)
    print(f"  {'to horovodrun':20} median {median:5.2f}    ({low:.2f} to {high:.2f})")


def horovodrun(folder: Path) -> dict[str, float]:
    """Run this script on ranks of horovodrun; return when the last rank reached each milestone."""
    program = [sys.executable, f"{SITE}/bin/horovodrun", "-np", f"{NODES}", "--disable-cache"]
    with lock.exclusive_machine():
        began = time.monotonic()
        subprocess.run(
            [*program, sys.executable, __file__, str(folder)],
            check=True,
            capture_output=True,
            env=os.environ | {"PYTHONPATH": str(SITE), "CUDA_VISIBLE_DEVICES": "-1"},
        )
    ranks = [json.loads((folder / f"rank~{rank}.json").read_text()) for rank in range(NODES)]
    return {name: max(rank[name] for rank in ranks) - began for name in cell_start.MILESTONES}


def train(folder: Path) -> None:
    """Train as a rank of horovodrun, as a user would write it; save the times of milestones."""
    import horovod.tensorflow as hvd  # type: ignore[import-not-found]
    import tensorflow as tf

    from nodewise import data as datasets
    from nodewise.measure.node import compute_with
    from nodewise.models import registry

    at = {"imported_s": time.monotonic()}
    hvd.init()
    compute_with(1)
    data = datasets.load(cell_start.DATASET / "manifest.json")
    fashion_cnn = registry.load("fashion_cnn")
    model = fashion_cnn.build()
    optimizer = model.optimizer
    optimizer.build(model.trainable_variables)
    hvd.broadcast_variables([v.value for v in model.variables], root_rank=0)
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    def train_step(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
        with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
            loss = cross_entropy(y, model(x, training=True))
        gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
        optimizer.apply(gradients, model.trainable_variables)
        return loss

    step = tf.function(train_step, autograph=False)
    mine = slice(hvd.rank(), None, hvd.size())
    examples = tf.data.Dataset.from_tensor_slices((data.train[0][mine], data.train[1][mine]))
    batches = examples.batch(BATCH).take(STEPS)
    at["workers_ready_s"] = time.monotonic()
    for x, y in batches:
        step(x, y).numpy()
    at["first_timed_step_s"] = time.monotonic()
    (folder / f"rank~{hvd.rank()}.json").write_text(json.dumps(at))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        train(Path(sys.argv[1]))
    else:
        main()
