"""Devices of one process: what they share, and what each of them has for itself.

Another test checks that ten steps equal those of one process, as for other synchronous strategies.
"""

import projects

JOB = """
import keras
import numpy as np
import tensorflow as tf
from keras import layers
from nodewise.strategies import api
from nodewise.strategies.mirrored import worker as mirrored

def build():
    model = keras.Sequential([keras.Input((4,)), layers.Dropout(0.5), layers.Dense(2)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model

gpu, found = tf.config.PhysicalDevice("GPU:0", "GPU"), tf.config.list_physical_devices
tf.config.list_physical_devices = lambda kind=None: [gpu] if kind == "GPU" else found(kind)

def seeds():
    variable, _ = api.seeds(trained.model)  # of the dropout, and of layers without a seed
    return [copy.tolist() for copy in trained._on_each_device(variable)]

trained = mirrored.Strategy(api.Job(0, 2, 8, 3, build))
assert trained.device().startswith("CPU"), "one GPU is too few for two devices"
initial, (first, second) = trained.state(), seeds()
assert second == [first[0] + 1, first[1]], (first, second)
trained.step((tf.ones([8, 4]), tf.zeros([8], tf.int32)))
assert seeds() == [[seed, count + 1] for seed, count in (first, second)], seeds()
trained.weights_sha256()  # of weights that differ it raises
trained.restore(initial)
assert seeds() == [first, second], seeds()
trained.split_step((tf.ones([8, 4]), tf.zeros([8], tf.int32)))
assert seeds() == [[seed, count + 1] for seed, count in (first, second)], seeds()
"""

CLOSURE = """
import keras
import tensorflow as tf
from keras import layers
from nodewise.strategies import api
from nodewise.strategies.mirrored import worker as mirrored

def build():
    scale = tf.Variable(1.0)
    class Own(keras.Sequential):
        def train_step(self, data):
            scale.assign(0.5 * scale)
            return super().train_step(data)
    model = Own([keras.Input((4,)), layers.Lambda(lambda x: x * scale), layers.Dense(2)])
    model.compile("sgd", "mse")
    return model

spec = tf.TensorSpec((8, 4)), tf.TensorSpec((8, 2))
trained = mirrored.Strategy(api.Job(0, 1, 8, 3, build, batch=spec))
trained.step((tf.ones([8, 4]), tf.ones([8, 2])))
(scale,) = trained.trained().only_in_closures
assert scale.numpy() == 0.5, scale
"""


def test_what_only_a_closure_holds_is_evaluated_as_it_was_trained():
    projects.python("-c", CLOSURE)


def test_each_device_drops_other_units_and_all_have_the_same_weights():
    projects.python("-c", JOB)
