"""Small models of many kinds, one a file: `build()` compiles one, `load()` returns (train, None).

The training set is (x, y), (x, y, sample_weight) or (x,). Beside the model `build()` may return
options of `fit`; a kind with callbacks has EPOCHS, and a test set.

What a kind may say of itself, where more than one worker does not equal one process:

- PER_WORKER: why a worker's gradient depends on which examples it has, or on its random numbers.
- UNSEEDED: they come from Keras' own generator, of which a thread has one.
- OWN_STEP: its loss is none of Keras, and it does not divide it by the number of replicas.
- TOLERANCE: of the rounding of its numbers, in units of the largest weight.
"""

import numpy as np

EXAMPLES = 72


def numbers(*shape, seed=1):
    """Return random numbers, float32, one row an example."""
    return np.random.default_rng(seed).normal(size=(EXAMPLES, *shape)).astype("float32")


def integers(high, *shape, seed=2):
    """Return random numbers from 0 up to below `high`, int64, one row an example."""
    return np.random.default_rng(seed).integers(0, high, (EXAMPLES, *shape))
