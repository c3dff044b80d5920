"""Gradients are exchanged in buckets, each as soon as back-propagation has computed it."""

import keras
import tensorflow as tf

from nodewise.strategies import replica
from nodewise.strategies.api import Job

MODEL_INPUTS, UNITS, CLASSES = 300, 1000, 10


def test_the_last_layers_gradients_are_sent_while_the_first_ones_are_computed():
    """In the graph of a step, the first exchange depends on no operation after another exchange."""
    sums = []

    class Noted(replica.Exchange):
        def sum(self, values):
            sums.append(tf.identity(values))
            return sums[-1]

    batch = (tf.TensorSpec([8, MODEL_INPUTS]), tf.TensorSpec([8], tf.int32))
    trained = replica.Replica(Job(0, 2, 16, 1, model, batch=batch), Noted())
    sums.clear()
    step = tf.function(trained.step.python_function).get_concrete_function(batch)
    last_layers, first_layers = sums
    assert last_layers.shape == [UNITS * UNITS + UNITS + UNITS * CLASSES + CLASSES]
    assert first_layers.shape == [MODEL_INPUTS * UNITS + UNITS]
    of_first_kernel = {
        op
        for op in step.graph.get_operations()
        if op.type == "MatMul" and op.outputs[0].shape == [MODEL_INPUTS, UNITS]
    }
    assert of_first_kernel & needed_by(first_layers.op)
    assert not of_first_kernel & needed_by(last_layers.op)
    assert last_layers.op not in needed_by(first_layers.op)


def test_rows_in_bfloat16_are_exchanged_in_float32_as_other_gradients():
    sent = []
    own = tf.IndexedSlices(tf.ones([2, 3], tf.bfloat16), tf.constant([0, 5]))
    rows = replica._rows(lambda one: sent.append(one.dtype) or one, 1 / 3, own)
    assert sent == [tf.float32, tf.int32] and rows.values.dtype == tf.bfloat16


def model():
    layers = [keras.layers.Dense(UNITS, "relu"), keras.layers.Dense(UNITS, "relu")]
    model = keras.Sequential([keras.Input([MODEL_INPUTS]), *layers, keras.layers.Dense(CLASSES)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model


def needed_by(operation):
    """Return all operations that must run before `operation`."""
    found, left = set(), [operation]
    while left:
        for before in [*(one.op for one in left[-1].inputs), *left.pop().control_inputs]:
            if before not in found:
                found.add(before)
                left.append(before)
    return found
