"""Small models of many kinds: a table of their names, builders and data.

A builder returns a compiled model, or a model and options of `fit`. This module does not import
Keras, so that tests can be collected quickly.
"""

import importlib
import itertools
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Kind:
    """What there is to know of a kind.

    Attributes:
        module: module of this package with its builder, which has the name of the kind.
        data: name of its data in `kinds.data`.
        per_worker: why a worker's gradient depends on which examples it has, or on its random
            numbers; empty if it does not.
        unseeded: whether its random numbers come from Keras' own generator, of which a thread has
            one.
        own_step: whether its loss is none of Keras, and it does not divide it by the number of
            replicas.
        tolerance: of the rounding of its numbers, in units of the largest weight.
        epochs: number of epochs, for kinds with callbacks.
    """

    module: str
    data: str = "sums"
    per_worker: str = ""
    unseeded: bool = False
    own_step: bool = False
    tolerance: float = 1e-5
    epochs: int = 1


DRAWS, MASKS = "random numbers", "masks"

KINDS = {
    # losses and labels
    "regression": Kind("plain"),
    "one_hot": Kind("plain", "one_hot"),
    "class_weight": Kind("plain", "column"),
    "sample_weights": Kind("plain", "weighted"),
    "mean_of_weights": Kind("plain", "weighted_sums", per_worker="sample weights"),
    "summed": Kind("plain"),
    "own_sum": Kind("plain"),
    "own_mean": Kind("plain"),
    "regularized": Kind("custom", per_worker="losses that layers add"),
    # optimizers
    "averaged": Kind("plain"),
    "ema": Kind("plain", "not_full"),
    "unregistered": Kind("custom"),
    "two_optimizers": Kind("plain"),
    "callbacks": Kind("custom", "tested_sums", epochs=5),
    # types of numbers
    "half": Kind("plain", "small_sums", tolerance=1e-3),
    "bfloat16_weights": Kind("plain", tolerance=0.016),  # two steps of the last bit
    "ema_scaled": Kind("plain"),
    # layers
    "batch_normalization": Kind("plain", "pictures", per_worker="batch statistics"),
    "synchronized": Kind("plain", "classes"),
    "spectral": Kind("plain"),
    "dropout": Kind("plain", "classes", per_worker=DRAWS),
    "unseeded": Kind("custom", per_worker=DRAWS, unseeded=True),
    "augmented": Kind("plain", "pictures", per_worker=DRAWS),
    "frozen": Kind("plain", "named_sums"),
    "own_variable": Kind("custom"),
    "stateful": Kind("plain", "series"),
    # words
    "embedding": Kind("plain", "words"),
    "masked": Kind("plain", "padded_tokens", per_worker=MASKS),
    "hub": Kind("plain", "hub"),
    "ragged": Kind("custom", "ragged"),
    "text": Kind("plain", "text"),
    # several inputs
    "two_inputs": Kind("plain", "two_inputs"),
    "siamese": Kind("plain", "pairs"),
    # code of one's own
    "own_loss": Kind("custom", own_step=True),
    "own_train_step": Kind("custom", "same", own_step=True),
    "accumulating": Kind("custom", own_step=True),
    "decorated": Kind("custom", own_step=True),
    "x_alone": Kind("custom", "alone", own_step=True),
    "drawn": Kind("custom", per_worker="random numbers of TensorFlow"),
    "unseen": Kind("custom", own_step=True),
    "gan": Kind("custom", "noise"),
    "inner_models": Kind("custom", "same", own_step=True),
    "nested_logs": Kind("custom", own_step=True),
}


# Each kind meets one of these; servers seldom, because they start anew for each kind.
ROTATION = ["custom_loop", "mirrored", "mpi", "parameter_averaging", "compressed_sgd"]
ROTATION += ["multi_worker_mirrored", "horovod", "custom_loop", "mirrored", "parameter_averaging"]
ROTATION += ["parameter_server", "async_sgd"]


def groups():
    """Return the kinds that each strategy of ROTATION trains in `make test-all`."""
    found = {}
    for name, strategy in zip(KINDS, itertools.cycle(ROTATION), strict=False):
        found.setdefault(strategy, []).append(name)
    return found


def builder(name):
    """Return the function that builds a kind's model."""
    return getattr(importlib.import_module(f"kinds.{KINDS[name].module}"), name)


def load(name):
    """Return the data of a kind: (train, test); the test set may be None."""
    return importlib.import_module("kinds.data").load(KINDS[name].data)


def spec(name):
    """Return the spec of a kind's builder, as for a user's own model."""
    return f"{Path(__file__).with_name(f'{KINDS[name].module}.py')}:{name}"
