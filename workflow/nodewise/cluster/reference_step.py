"""The reference step: a fixed computation that shows how fast this machine currently is."""

import statistics
import time

import numpy as np

_RUNS = 9
_SIZE = 512
_PRODUCTS = 4


def reference_us() -> int:
    """Return the CPU time of the reference step, in microseconds.

    It is the median of several runs of a few products of 512 × 512 float32 matrices.
    """
    matrix = np.ones((_SIZE, _SIZE), dtype=np.float32)
    runs = []
    for _ in range(_RUNS):
        before = time.process_time_ns()
        for _ in range(_PRODUCTS):
            matrix @ matrix
        runs.append(time.process_time_ns() - before)
    return max(1, round(statistics.median(runs) / 1000))
