"""What a server does: it updates its part of a model as in the whole model, and counts workers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from nodewise.core.errors import RefusedError
from nodewise.strategies import parts
from nodewise.strategies.api import Job
from nodewise.strategies.async_sgd.server_part import Part
from nodewise.strategies.async_sgd.staleness import Ledger


def job(optimizer: str = "", **dense) -> Job:
    def build() -> keras.Model:
        model = keras.Sequential([keras.Input((4,)), layers.Dense(3, **dense)])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        own = optimizer_of(optimizer, model) if optimizer else keras.optimizers.SGD(0.5)
        model.compile(own, loss)
        return model

    return Job(0, 1, 8, 1, build)


def test_a_constraint_is_kept_on_one_server_and_refused_on_several():
    held = job(kernel_constraint=keras.constraints.MaxNorm(0.1))
    part = Part(held, 0, 1)
    part.apply(np.ones_like(part.weights), 1.0)
    assert np.linalg.norm(part.weights[:12].reshape(4, 3), axis=0).max() <= 0.1 + 1e-6
    with pytest.raises(RefusedError, match="kernel has a constraint, which needs all of it"):
        Part(held, 0, 2)


class Layerwise(keras.optimizers.SGD):
    """An optimizer that may scale a variable's gradient by its norm, as LARS does."""


def optimizer_of(name: str, model: keras.Model) -> keras.optimizers.Optimizer:
    if name == "MultiOptimizer":
        return keras.optimizers.MultiOptimizer(keras.optimizers.OptimizerMap(Layerwise()))
    if name.startswith("AdamW"):  # a piece of the kernel, which both parts have, is left out, too
        decaying = keras.optimizers.AdamW(weight_decay=0.5)
        by_name = {"var_names": ["kernel"]}
        excluded = by_name if name == "AdamW" else {"var_list": [model.layers[0].kernel]}
        decaying.exclude_from_weight_decay(**excluded)
        return decaying
    return Layerwise() if name == "Layerwise" else getattr(keras.optimizers, name)()


@pytest.mark.parametrize("name", ["Layerwise", "Lamb", "Adafactor", "Muon", "MultiOptimizer"])
def test_an_optimizer_that_may_look_at_more_than_each_weight_gets_no_parts(name):
    with pytest.raises(RefusedError, match=f"the optimizer {name} needs whole layers; allowed: Ad"):
        parts.check(job(name).build())


def test_a_server_refuses_several_optimizers_before_it_uses_them():
    with pytest.raises(RefusedError, match="the model has several optimizers"):
        Part(job("MultiOptimizer"), 0, 1)


@pytest.mark.parametrize("name", [*sorted(parts._OPTIMIZERS), "AdamW, by variable"])
def test_an_optimizer_of_each_weight_trains_a_part_as_it_trains_the_whole(name):
    asked = job(name)
    trained = [Part(asked, 0, 1), *(Part(asked, number, 2) for number in range(2))]
    gradient = np.linspace(-1, 2, trained[0].weights.size, dtype=np.float32)
    for part, own in zip(trained, [gradient, *np.array_split(gradient, 2)], strict=True):
        for _ in range(3):
            part.apply(own, 1.0)
    whole, *halves = (part.weights for part in trained)
    np.testing.assert_allclose(np.concatenate(halves), whole, rtol=1e-5, atol=1e-7)


OwnStep = type("OwnStep", (keras.Sequential,), {"train_step": lambda self, data: {}})
SPEC = tf.TensorSpec((8, 4)), tf.TensorSpec((8,))


def relu6(x):
    return tf.nn.relu6(x)


def net(*inside, kind=keras.Sequential, **compiling):
    model = kind([keras.Input((4,)), *inside, layers.Dense(3)])
    model.compile(**{"optimizer": "sgd", "loss": "mse"} | compiling)
    return model


def two_outputs():
    x = keras.Input((4,))
    model = keras.Model(x, [layers.Dense(1)(x), layers.Dense(2)(x)])
    model.compile("sgd", "mse")
    return model


def test_layers_and_losses_of_keras_are_allowed():
    inner = keras.Sequential([keras.Input((8,)), layers.BatchNormalization(), layers.Dropout(0.5)])
    inside = layers.Dense(8, activation=relu6), inner
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    parts.check(net(*inside, loss=loss, metrics=["accuracy"]), SPEC)


@pytest.mark.parametrize(
    ("model", "batch", "said"),
    [
        (lambda: net(kind=OwnStep), SPEC, "a train_step of your own"),
        (two_outputs, SPEC, "one input, one output"),
        (net, (*SPEC, SPEC[1]), "no sample weights"),
        (net, tf.TensorSpec((8, 4)), "one input, one output"),
        (lambda: net(loss=keras.losses.MeanSquaredError("sum")), SPEC, "keras.losses"),
        (lambda: net(loss=lambda y, p: p[:, 0]), SPEC, "keras.losses"),
        (lambda: net(layers.Dense(2, kernel_regularizer="l2")), SPEC, "losses that layers add"),
        (lambda: net(layers.Dense(2, activity_regularizer="l2")), SPEC, "(Dense) is not allowed"),
        (lambda: net(layers.Lambda(relu6)), SPEC, "(Lambda) is not allowed"),
        (lambda: net(layers.BatchNormalization(synchronized=True)), SPEC, "(BatchNormalization)"),
        (lambda: net(type("Own", (layers.Dense,), {})(2)), SPEC, "(Own) is not allowed"),
        (lambda: net(layers.Dense(2, kernel_constraint="unit_norm")), SPEC, "a constraint"),
        (lambda: net(optimizer=keras.optimizers.SGD(clipnorm=1.0)), SPEC, "clipnorm"),
        (lambda: net(optimizer=keras.optimizers.Adam(use_ema=True)), SPEC, "use_ema"),
    ],
)
def test_what_cannot_be_trained_in_parts_is_refused(model, batch, said):
    with pytest.raises(RefusedError) as raised:
        parts.check(model(), batch)
    assert said in str(raised.value)


NOTHING = np.zeros(0, np.float32)


def test_who_has_done_all_its_steps_holds_nobody_back():
    ledger = Ledger(3, bound=1)
    assert ledger.came(2, NOTHING) is None
    for _ in range(5):
        ledger.pushed(0)
        ledger.pushed(1)
    assert not ledger.must_wait(0)
    ledger.pushed(0)
    ledger.pushed(0)
    assert ledger.must_wait(0)
    assert ledger.came(1, NOTHING) is None
    assert not ledger.must_wait(0)


def test_the_mean_is_the_same_to_the_bit_in_any_order_of_coming():
    values = np.random.default_rng(0).normal(size=(5, 1000)).astype(np.float32)
    means = []
    for order in (range(5), (3, 1, 4, 0, 2)):
        ledger = Ledger(5)
        *_, mean = (ledger.came(worker, values[worker]) for worker in order)
        means.append(mean)
    assert means[0].tobytes() == means[1].tobytes()
