"""Small models for jobs of tests: each function returns a model, which `compiled` compiles."""

import time

import keras
import numpy as np
import tensorflow as tf
from keras import layers
from training_job import EXAMPLES, NAP_S, STEPS, linear_inputs

from nodewise.data import synthetic
from nodewise.models import registry

WIDTH = 16


def dense(*inside, width=WIDTH):
    return keras.Sequential([keras.Input((width,)), *inside])


def normalised():
    """Layers that depend on the whole batch or on random numbers, and residual blocks."""
    x = block = keras.Input((WIDTH,))
    for _ in range(2):
        inside = layers.BatchNormalization()(layers.Dense(16, activation="relu")(block))
        block = layers.Add()([block, inside])
    head = [layers.Dropout(0.3), layers.Dense(8), layers.BatchNormalization(), layers.Dense(4)]
    return dense(layers.Dense(16), keras.Model(x, block), *head)


def frozen():
    """First layers that are not trained, and a last one without weights."""
    still = [layers.Dense(16), layers.BatchNormalization(), layers.Dense(16)]
    for layer in still:
        layer.trainable = False
    return dense(*still, layers.Dense(16), layers.ReLU(), layers.Dense(4), layers.Rescaling(2.0))


def slow():
    """Two stages that take equally long on any machine."""

    def nap(x):
        slept = tf.py_function(lambda n: time.sleep(NAP_S * int(n)), [tf.shape(x)[0]], [])
        with tf.control_dependencies([slept]):
            return tf.identity(x)

    stages = [[layers.Activation(nap), layers.Dense(16)] for _ in range(2)]
    return dense(*stages[0], *stages[1])


def embedded():
    """An embedding, whose gradient has only some rows."""
    first = [layers.Rescaling(1.0), layers.Embedding(8, 8), layers.Flatten()]
    return dense(*first, layers.Dense(8), layers.Dense(4))


def wide():
    """A layer of many weights in the middle; built layer by layer, as many models are."""
    model = dense(layers.Dense(512, activation="tanh"))
    model.add(layers.Dense(96, activation="relu"))
    model.add(layers.Dense(4))
    return model


def linear():
    """A model whose loss is its output, so that its gradient is the mean of its inputs."""
    return dense(layers.Dense(1, use_bias=False), width=linear_inputs().shape[-1])


def compiled(model: str, optimizer: str) -> keras.Model:
    """Return a compiled model of this module, or of nodewise's."""
    if model == "fashion_mlp":
        return registry.load(model).build()
    built = globals()[model.rpartition("_")[2]]()
    if model == "drawn_normalised":  # by each worker for itself
        built.layers[0].kernel.assign(np.random.default_rng().normal(size=(WIDTH, 16)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if "linear" in model:
        loss = lambda y, outputs: outputs[:, 0]  # noqa: E731
    momentum = 0.9 if optimizer == "momentum" else 0.0
    scale = 4.0 if model == "frozen" else None
    rate = 0.5 if "linear" in model else 0.05
    built.compile(keras.optimizers.SGD(rate, momentum, loss_scale_factor=scale), loss)
    return built


def data(model: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the examples of all steps and their labels, (steps, examples, …)."""
    random = np.random.default_rng(3)
    if model == "fashion_mlp":
        x, y = synthetic.draw((28, 28, 1), 10, 20 * 96, seed=1, split=0)
        return x.reshape(20, 96, 28, 28, 1), y.reshape(20, 96)
    x = random.normal(size=(STEPS, EXAMPLES, WIDTH)).astype(np.float32)
    if model == "embedded":
        x = np.floor(np.abs(x)).clip(0, 7)
    if "linear" in model:
        x = linear_inputs().astype(np.float32)
    if model == "infinite_linear":
        x[3, EXAMPLES // 2] = np.inf
    return x, random.integers(0, 4, (STEPS, EXAMPLES))
