"""Measure the memory of one training step of BERT-base on 32 reviews of 512 tokens.

Prints the unique set size of this process, sampled during the step, and its largest resident set
size, as reported by the kernel. The step runs as in a cell on one node: one thread, one worker.
"""

import os
import resource
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
import psutil
import tensorflow as tf

from nodewise.measure.node import compute_with
from nodewise.models import registry
from nodewise.strategies.api import Job
from nodewise.strategies.single.worker import Strategy

BATCH = 32
STEPS = 2  # the first step is traced
SAMPLED_EVERY_S = 0.02
GB = 1e9


def main() -> None:
    """Train and print the results."""
    compute_with(1)
    bert = registry.load("bert_base")
    rng = np.random.default_rng(1)
    ids = rng.integers(1, 30_000, (BATCH, bert.TOKENS)).astype(np.uint16)
    x, y = tf.constant(ids), tf.constant(rng.integers(0, 2, BATCH).astype(np.uint8))
    strategy = Strategy(Job(0, 1, BATCH, 1, bert.build))
    print(f"model and optimizer built: {unique() / GB:.2f} GB")
    for step in range(1, STEPS + 1):
        started = time.perf_counter()
        with watched() as most:
            strategy.step((x, y))
        seconds = time.perf_counter() - started
        print(f"step {step}: {seconds:.1f} s, at most {max(most) / GB:.2f} GB", flush=True)
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(f"largest resident set, libraries and all: {largest / GB:.2f} GB")


def unique() -> int:
    """Return the memory, in bytes, that only this process uses."""
    used: int = psutil.Process().memory_full_info().uss
    return used


@contextmanager
def watched() -> Iterator[list[int]]:
    """Yield a list. After the block it contains samples of the memory used during the block."""
    samples: list[int] = []
    over = threading.Event()

    def sample() -> None:
        while not over.is_set():
            samples.append(unique())
            over.wait(SAMPLED_EVERY_S)

    thread = threading.Thread(target=sample)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


if __name__ == "__main__":
    main()
