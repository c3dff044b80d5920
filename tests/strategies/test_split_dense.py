"""Large dense layers split over workers: what is sent, and which layers are split.

Another test checks that they train like one process, as for other synchronous strategies.
"""

import json

import keras
import numpy as np
import pipeline_job
import pytest
from keras import layers
from pipeline_job import Case

from nodewise.strategies.api import Job
from nodewise.strategies.split_dense import worker as split_dense

pytestmark = pytest.mark.slow

NODES, STEPS, EXAMPLES = 3, 6, 24  # examples of each worker
INPUTS, UNITS = 256, 96  # of the split layer
OTHERS = 16 * 256 + 256 + UNITS + UNITS * 4 + 4  # weights of the other layers
CASES = {
    "wide": ("split_dense", NODES, "wide", {}),
    "nothing_to_split": ("split_dense", NODES, "normalised", {}),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory, run_job):
    out = tmp_path_factory.mktemp("split_dense")
    cases = {name: Case(*case) for name, case in CASES.items()}
    run_job(pipeline_job.main, out, cases, timeout_s=240)
    return out


def weights(folder, case):
    return [dict(np.load(path)) for path in sorted((folder / case).glob("model~*.npz"))]


@pytest.mark.parametrize("case", ["wide", "nothing_to_split"])
def test_in_the_end_all_have_the_same_weights_and_statistics(folder, case):
    first, *others = weights(folder, case)
    assert len(others) == NODES - 1
    for other in others:
        for name, array in first.items():
            np.testing.assert_array_equal(other[name], array)


def test_of_a_split_layer_activations_are_sent_and_no_gradient(folder):
    seen = [json.loads(path.read_text()) for path in sorted((folder / "wide").glob("seen~*"))]
    there_and_back = 2 * EXAMPLES * (INPUTS / NODES + UNITS)
    expected = STEPS * 4 * (NODES - 1) * (there_and_back + 2 * OTHERS / NODES)
    assert sum(one["sent"] for one in seen) / NODES == pytest.approx(expected, rel=0.02)
    dense = STEPS * 4 * (NODES - 1) * 2 * (INPUTS * UNITS + OTHERS) / NODES
    assert expected < 0.7 * dense


class Scaled(layers.Dense):
    """A dense layer that first changes its inputs."""

    def call(self, inputs, training=None):
        return super().call(2 * inputs)


def with_lora():
    layer = layers.Dense(300)
    layer.build((None, 300))
    layer.enable_lora(4)
    return layer


def model_of(*ones):
    """Build a model layer by layer; each `add` leaves calls of layers behind."""
    model = keras.Sequential([keras.Input((300,))])
    for one in (*ones, layers.Dropout(0.2), layers.Dense(2)):
        model.add(one)
    return model


def split_in(model):
    job = Job(0, 2, 8, 1, lambda: model)
    return [layer for layer in model.layers if split_dense.saves_bytes(layer, model, job)]


def test_which_layers_are_split():
    plain, twice = layers.Dense(300), layers.Dense(300)
    assert split_in(model_of(plain)) == [plain]
    assert split_in(model_of(Scaled(300))) == []
    assert split_in(model_of(with_lora())) == []
    x = keras.Input((300,))
    assert split_in(keras.Model(x, twice(twice(x)))) == []
    inner = keras.Sequential([keras.Input((300,)), twice])
    assert split_in(keras.Model(x, inner(twice(x)))) == []
