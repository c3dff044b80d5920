"""The reference step: a fixed piece of work that tells how fast this machine is now."""

import statistics
import time

import numpy as np

_RUNS = 9
_SIZE = 512
_PRODUCTS = 4


def reference_us() -> int:
    """Return the CPU time of one fixed piece of work, in microseconds: the machine's speed now."""
    matrix = np.ones((_SIZE, _SIZE), dtype=np.float32)
    runs = []
    for _ in range(_RUNS):
        before = time.process_time_ns()
        for _ in range(_PRODUCTS):
            matrix @ matrix
        runs.append(time.process_time_ns() - before)
    return max(1, round(statistics.median(runs) / 1000))
