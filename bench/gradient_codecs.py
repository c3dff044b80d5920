"""Compare compressed gradients with dense ones: bytes per step, time of the codec and accuracy.

Trains the Fashion CNN on two workers, which are simulated in one process. Their gradients are
compressed and decoded as if they were sent, the residuals are kept, and the mean of the decoded
gradients is applied. Bytes are those that one worker sends to the other per step, as the median of
the second half of the steps, because residuals have to fill up first. Times are CPU times of one
message. Accuracy is that of the last quarter of the steps, on examples not seen before, measured
before each update. Prepare the data with

    nodewise prepare fashion_mnist
"""

import os
import time
from pathlib import Path

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1", "OMP_NUM_THREADS": "1"}

import keras
import numpy as np
import tensorflow as tf

from nodewise import data as datasets
from nodewise.cluster.local import LocalProcesses
from nodewise.measure.node import compute_with
from nodewise.models import registry
from nodewise.strategies.api import flat, unflat
from nodewise.strategies.compressed_sgd import CompressedSgd
from nodewise.strategies.compressed_sgd.compression import Codec, Update
from nodewise.strategies.compressed_sgd.worker import codec_of

MANIFEST = Path("results/datasets/fashion_mnist/manifest.json")
WORKERS, BATCH, STEPS = 2, 64, 200
CHOICES: dict[str, CompressedSgd | None] = {
    "dense": None,
    "float16": CompressedSgd(method="float16"),
    **{f"top_k {s:g}": CompressedSgd(method="top_k", share=s) for s in (0.1, 0.03, 0.01, 0.001)},
    **{f"threshold {t:g}": CompressedSgd(threshold=t) for t in (0.001, 0.003, 0.01, 0.05)},
}


class Training:
    """A model, the residuals of the workers that train it, and measurements of each message."""

    def __init__(self, options: CompressedSgd | None) -> None:
        keras.utils.set_random_seed(1)
        self.model = registry.load("fashion_cnn").build()
        self.gradient = tf.function(self._gradient, autograph=False)
        self.size = self.model.count_params()
        self.codec = codec_of(options, self.size) if options else None
        self.residuals = np.zeros((WORKERS, self.size), np.float32)
        self.bytes: list[int] = []
        self.encode_s: list[float] = []
        self.decode_s: list[float] = []
        self.right: list[float] = []

    def _gradient(self, x: tf.Tensor, y: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the mean gradient over a batch, flat, and the share of correct predictions."""
        with tf.GradientTape() as tape:
            outputs = self.model(x, training=True)
            loss = self.model.compute_loss(x, y, outputs, training=True)
        right = tf.equal(tf.argmax(outputs, axis=1), tf.cast(y, tf.int64))
        gradients = tape.gradient(loss, self.model.trainable_variables)
        return flat(gradients), tf.reduce_mean(tf.cast(right, tf.float32))

    def step(self, batches: list[tuple[tf.Tensor, tf.Tensor]]) -> None:
        """Train one step on one batch per worker."""
        total = np.zeros(self.size, np.float32)
        for worker, (x, y) in enumerate(batches):
            gradient, right = (found.numpy() for found in self.gradient(x, y))
            self.right.append(float(right))
            update = Update(slice(None), gradient)
            if self.codec:
                update = self.sent(self.codec, worker, gradient)
            total[update.indices] += update.values / WORKERS
        weights = self.model.trainable_variables
        self.model.optimizer.apply(unflat(tf.constant(total), weights), weights)

    def sent(self, codec: Codec, worker: int, gradient: np.ndarray) -> Update:
        """Return the update that others decode from a worker's gradient; keep the residual."""
        residual = self.residuals[worker]
        residual += gradient
        started = time.process_time()
        message = codec.encode(residual)
        encoded = time.process_time()
        update = codec.decode(message)
        self.decode_s.append(time.process_time() - encoded)
        self.encode_s.append(encoded - started)
        self.bytes.append(len(message))
        residual[update.indices] -= update.values
        return update


def main() -> None:
    LocalProcesses(1).enter_node(0)
    compute_with(1)
    data = datasets.load(MANIFEST)
    rows = np.random.default_rng(1).permutation(len(data.train[1]))
    steps = rows[: STEPS * WORKERS * BATCH].reshape(STEPS, WORKERS, BATCH)
    print(f"{'':16}  bytes/step  dense/this  encode ms  decode ms  accuracy")
    for name, options in CHOICES.items():
        training = Training(options)
        for step in steps:
            parts = [(data.train[0][rows], data.train[1][rows]) for rows in step]
            training.step([(tf.constant(x), tf.constant(y)) for x, y in parts])
        sent = np.median(training.bytes[STEPS:] or [4 * training.size])
        times = [1e3 * np.median(taken or [0]) for taken in (training.encode_s, training.decode_s)]
        print(
            f"{name:16}  {sent:10,.0f}  {4 * training.size / sent:10.1f}  {times[0]:9.2f}"
            f"  {times[1]:9.2f}  {np.mean(training.right[-STEPS // 2 :]):8.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
