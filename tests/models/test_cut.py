"""Stages in sequence compute what the whole model computes; other models are refused."""

from itertools import combinations, pairwise

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st
from keras import layers

from kinds.custom import Net
from nodewise.core.errors import RefusedError
from nodewise.models import registry
from nodewise.models.cut import balanced, cut, pieces_of


def chain(stages, x, **how):
    for stage in stages:
        x = stage(x, **how)
    return x


def examples_of(model):
    random = np.random.default_rng(5)
    return tf.cast(random.integers(0, 9, (3, *model.input_shape[1:])), model.inputs[0].dtype)


def small_bert():
    bert = registry.load("bert_base")
    return bert.bert(bert.Sizes(vocabulary=12, depth=2, width=8, heads=2, inner=16), tokens=6)


MODELS = pytest.mark.parametrize(
    "build",
    [
        pytest.param(registry.load("cifar10_cnn").build, id="cifar10_cnn"),
        pytest.param(registry.load("resnet50").build, id="resnet50", marks=pytest.mark.slow),
        pytest.param(small_bert, id="bert"),
    ],
)


@pytest.mark.parametrize("count", [1, 4])
@MODELS
def test_stages_compute_what_the_model_computes(build, count):
    model = build()
    stages, x = cut(model, count), examples_of(model)
    assert len(stages) == count
    np.testing.assert_allclose(chain(stages, x, training=False), model(x, training=False), 1e-5)
    ours = [id(one) for stage in stages for one in stage.trainable_variables]
    assert sorted(ours) == sorted(id(one) for one in model.trainable_variables)


@MODELS
def test_a_model_can_be_cut_into_as_many_stages_as_its_description_says(build):
    model = build()
    most = len(pieces_of(model))
    assert len(cut(model, most)) == most
    with pytest.raises(RefusedError, match=f"can be cut into {most} stages at most"):
        cut(model, most + 1)


def test_a_cut_lies_between_residual_blocks_of_a_model_inside():
    x = block = keras.Input((6,))
    for _ in range(2):
        block = layers.Add()([block, layers.Dense(6)(layers.Dense(6)(block))])
    backbone = keras.Model(x, block, name="backbone")
    model = keras.Sequential([keras.Input((6,)), backbone, layers.Dense(2)])
    assert [len(stage.trainable_variables) for stage in cut(model, 3)] == [4, 4, 2]
    with pytest.raises(RefusedError, match=r"can be cut into 3 stages at most.* not into 4"):
        cut(model, 4)


def test_no_cut_where_a_mask_goes_along():
    """The mask is the padding of token ids: a later stage without it would attend to padding."""
    x = keras.Input((5,), dtype="int32")
    embedded = layers.Embedding(9, 4, mask_zero=True)(x)
    attended = layers.MultiHeadAttention(1, 4)(embedded, embedded)
    model = keras.Model(x, layers.Dense(2)(attended[:, 0]))
    ids = tf.constant([[3, 4, 0, 0, 0], [1, 0, 0, 0, 0]])
    stages = cut(model, 2)
    np.testing.assert_allclose(chain(stages, ids), model(ids), 1e-6)
    with pytest.raises(RefusedError, match="2 stages at most"):
        cut(model, 3)


def test_a_model_inside_that_is_called_in_a_way_of_its_own_stays_whole():
    inside = keras.Sequential([keras.Input((3,)), layers.BatchNormalization(), layers.Dense(3)])
    x = keras.Input((3,))
    model = keras.Model(x, layers.Dense(2)(inside(x, training=False)))
    given = examples_of(model)
    stages = cut(model, 2)
    np.testing.assert_allclose(chain(stages, given, training=True), model(given, training=True))
    with pytest.raises(RefusedError, match="2 stages at most"):
        cut(model, 3)


def test_a_model_that_is_no_graph_is_refused():
    with pytest.raises(RefusedError, match="no graph of layers"):
        cut(Net(), 2)


def test_weights_used_twice_are_not_trained_in_two_places():
    twice = layers.Dense(4)
    x = keras.Input((4,))
    model = keras.Model(x, twice(layers.Dense(4)(twice(x))))
    with pytest.raises(RefusedError, match="share weights"):
        cut(model, 3)


def costliest(costs, cuts):
    return max(sum(costs[a:b]) for a, b in pairwise((0, *cuts, len(costs))))


@given(st.lists(st.integers(0, 20), min_size=1, max_size=9), st.data())
def test_no_other_cut_is_better(costs, data):
    stages = data.draw(st.integers(1, len(costs)))
    cuts = balanced(costs, [1] * len(costs), stages)
    assert list(cuts) == sorted(set(cuts))
    assert len(cuts) == stages - 1
    every = combinations(range(1, len(costs)), stages - 1)
    assert costliest(costs, cuts) == min(costliest(costs, other) for other in every)


def test_of_equal_cuts_the_one_that_sends_less_is_taken():
    assert balanced([1, 0, 1], [5, 2, 9], 2) == (2,)


def test_a_long_chain_takes_no_time():
    assert balanced([1] * 160, [1] * 160, 40) == tuple(range(4, 160, 4))
