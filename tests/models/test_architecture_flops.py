"""Our counts of operations against those of TensorFlow's profiler.

The profiler does not count Einsum, which attention uses where it has no dropout. Here these
operations are added, computed from the shapes in the graph.
"""

import math
from functools import cache

import keras
import pytest
import tensorflow as tf
from keras import layers
from tensorflow.compat.v1 import profiler

import kinds
from mistakes import user_error
from nodewise.models import graph_flops
from nodewise.models import registry as models
from nodewise.models.describe import (
    COUNTED_BATCHES,
    architecture_of,
    describe,
    layers_of,
    zeros_spec,
)
from nodewise.models.facts import facts
from nodewise.models.registry import registry

WITHIN = 0.05
WITHIN_TRAINING = 0.1  # In small models, a tenth of a backward pass is not matrix products.
LARGE = {"bert_base", "densenet121", "resnet50"}
MODELS = [
    pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in sorted(registry())
]


def profiled(model):
    """Return a model's operations per example: those that the profiler counts, and its Einsums."""
    examples = [tf.TensorSpec((1, *one.shape[1:]), one.dtype) for one in model.inputs]
    function = tf.function(lambda *x: model(list(x) if len(x) > 1 else x[0], training=False))
    graph = function.get_concrete_function(*examples).graph
    options = profiler.ProfileOptionBuilder.float_operation() | {"output": "none"}
    counted = profiler.profile(graph, options=options).total_float_ops
    einsums = [op for op in graph.get_operations() if op.type == "Einsum"]
    return counted, sum(einsum_flops(op) for op in einsums)


def einsum_flops(op):
    """Return the operations of an Einsum: two for each combination of indices."""
    indices = op.get_attr("equation").decode().partition("->")[0].split(",")
    sizes = {}
    for letters, tensor in zip(indices, op.inputs, strict=True):
        sizes |= dict(zip(letters, tensor.shape.as_list(), strict=True))
    return 2 * math.prod(sizes.values())


@cache
def built(name):
    """Return a model of the registry, built only once."""
    return models.load(name).build()


# --- the models of the studies ---


@pytest.mark.parametrize("name", MODELS)
def test_the_count_is_that_of_the_profiler(name):
    counted = facts(name).flops_per_example
    assert counted == pytest.approx(sum(profiled(built(name))), rel=WITHIN)


@pytest.mark.parametrize("name", MODELS)
def test_the_committed_description_is_what_the_model_is_today(name):
    keras.utils.clear_session()  # Names of layers are numbered from 1 again.
    again = f"nodewise describe-model {name}"
    assert describe(name) == facts(name).model_copy(update={"memory": None}), again


# --- every kind of layer ---


def picture(*stack):
    return keras.Sequential([keras.Input((16, 16, 8)), *stack])


def attention(**options):
    query, value = keras.Input((6, 32)), keras.Input((9, 24))
    return keras.Model([query, value], layers.MultiHeadAttention(4, 8, **options)(query, value))


def branches():
    x = keras.Input((16, 16, 8))
    return keras.Model(x, layers.Conv2D(8, 1)(x) + layers.Conv2D(8, 3, padding="same")(x))


SMALL = {
    "convolution": lambda: picture(layers.Conv2D(12, 3, strides=2, padding="same", use_bias=False)),
    "pooling": lambda: picture(layers.MaxPooling2D(3, 2), layers.GlobalAveragePooling2D()),
    "batch normalisation": lambda: picture(layers.Conv2D(8, 3), layers.BatchNormalization()),
    "layer normalisation": lambda: keras.Sequential(
        [keras.Input((7, 40)), layers.Dense(30), layers.LayerNormalization()]
    ),
    "sum": branches,
    "attention": attention,
    "attention with dropout": lambda: attention(dropout=0.1),
}


@pytest.mark.parametrize("name", SMALL)
def test_every_kind_of_layer_is_counted_as_the_profiler_does(name):
    model = SMALL[name]()
    counted = sum(layer.flops for layer in layers_of(model))
    assert counted > 0
    assert counted == pytest.approx(sum(profiled(model)), rel=WITHIN)


EXACT = {  # forward and, as part of a trained model, in training
    "dense": (layers.Dense(30), 30 * (2 * 40 + 1), 3 * 30 * 2 * 40 + 2 * 30),
    "relu": (layers.ReLU(), 40, 80),
    "softmax": (layers.Softmax(), 200, None),
    "dropout": (layers.Dropout(0.5), 0, 0),
    "flatten": (layers.Flatten(), 0, 0),
}


@pytest.mark.parametrize("name", EXACT)
def test_operations_are_counted_exactly(name):
    layer, forward, training = EXACT[name]
    model = keras.Sequential([keras.Input((40,)), layers.Dense(40), layer])
    described = layers_of(model)[-1]
    assert described.flops == forward
    assert training is None or described.training_flops == training


def test_what_is_frozen_before_the_first_trained_layer_runs_forward_only():
    model = keras.Sequential([keras.Input((40,)), *(layers.Dense(40) for _ in range(4))])
    model.layers[0].trainable = model.layers[2].trainable = False
    described = layers_of(model)[1:]
    times = [round(layer.training_flops / layer.flops) for layer in described]
    assert times == [1, 2, 2, 3]  # frozen; first trained; frozen on the way back; trained
    assert [layer.state for layer in described] == ["frozen", "trained", "frozen", "trained"]


# --- other operations ---


def test_recurrent_layers_count_every_time_step():
    steps, width, units = 12, 4, 8
    model = keras.Sequential([keras.Input((steps, width)), layers.LSTM(units), layers.Dense(1)])
    _, lstm, _ = layers_of(model)
    products = steps * 2 * (width + units) * 4 * units
    assert products < lstm.flops < 1.4 * products  # The rest is element-wise operations.
    assert 2 < lstm.training_flops / lstm.flops < 3.5
    assert lstm.uncounted == []


def test_a_loop_of_unknown_length_is_said_to_be_counted_once():
    @tf.function(autograph=False)
    def halved(x):
        return tf.while_loop(lambda y: tf.reduce_sum(y) > 1, lambda y: (y / 2,), (x,))

    counted = graph_flops.count(halved.get_concrete_function(tf.TensorSpec([7])).graph)
    assert counted.flops == 7
    assert counted.uncounted == {graph_flops.UNKNOWN_LOOP}


@pytest.mark.parametrize("name", ["fashion_cnn", "mnist_cnn"])
def test_a_whole_training_step_takes_what_its_layers_take(name):
    model = built(name)
    batches = [zeros_spec(model, examples) for examples in COUNTED_BATCHES]
    forward, training = graph_flops.count_model(model, batches)
    assert forward.flops == pytest.approx(facts(name).flops_per_example, rel=WITHIN)
    expected = pytest.approx(facts(name).training_flops_per_example, rel=WITHIN_TRAINING)
    assert training.flops == expected
    assert forward.uncounted | training.uncounted == set()


# --- models that are not lists of layers ---


@pytest.mark.parametrize("kind", ["gan", "own_train_step", "two_inputs", "x_alone"])
def test_any_compiled_model_is_described_by_its_graph(kind):
    data = kinds.load(kind)[0]
    data = data[0] if len(data) == 1 else data  # as `fit` passes it to train_step
    data = (*data, *data) if kind == "gan" else data  # more parts, which only its step understands
    batches = [
        tf.nest.map_structure(lambda one, n=n: tf.TensorSpec((n, *one.shape[1:]), one.dtype), data)
        for n in (4, 8)
    ]
    described = architecture_of(kinds.builder(kind)(), kind, ["text"], batches)
    (layer,) = described.layers
    # What `x_alone` trains is not what its call() uses.
    assert (described.trainable == described.total) == (kind != "x_alone")
    assert layer.uncounted == []
    assert described.training_flops_per_example > 4 * described.trainable > 0
    assert (described.flops_per_example == 0) == (kind == "gan")  # which has no call()


@pytest.mark.parametrize("kind", ["ragged", "text"])
def test_ragged_and_text_inputs_are_described(kind):
    """Of ragged rows, one value of each is counted, which is said."""
    rows, ragged = tf.TensorSpec, tf.RaggedTensorSpec((None, None), tf.int64)
    x = {"ragged": lambda n: ragged, "text": lambda n: rows((n,), tf.string)}[kind]
    batches = [(x(n), rows((n,), tf.int64)) for n in (4, 8)]
    described = architecture_of(kinds.builder(kind)(), "mine", ["text"], batches)
    uncounted = {one for layer in described.layers for one in layer.uncounted}
    assert (graph_flops.UNKNOWN_ROWS in uncounted) == (kind == "ragged")


def test_a_layer_that_is_used_twice_is_counted_twice():
    x, shared = keras.Input((8,)), layers.Dense(8, name="shared")
    model = keras.Model(x, shared(shared(x)))
    model.compile("sgd", "mse")
    batches = [(tf.TensorSpec((examples, 8)), tf.TensorSpec((examples, 8))) for examples in (4, 8)]
    described = architecture_of(model, "mine", ["text"], batches)
    assert described.total == 72
    assert described.flops_per_example == 2 * 8 * (2 * 8 + 1)


def test_two_outputs_without_anything_in_common_are_described():
    x = keras.Input((8,))
    model = keras.Model(x, [layers.Dense(1)(x), layers.Dense(1)(x)])
    model.compile("sgd", ["mse", "mse"])
    assert architecture_of(model, "mine", ["text"], []).stages == 1


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (keras.Input((8,)), "mine: no layer is trained"),
        (keras.Input(batch_shape=(32, 8)), "mine: its batch size is fixed to 32, and batches of"),
    ],
)
def test_what_cannot_be_described_is_told_in_one_line(first, said):
    model = keras.Sequential([first, layers.Dense(1, trainable=False)])
    assert said in user_error(architecture_of, model, "mine", ["text"], [])
