"""What a user's function may return as a model, and how everything else is reported.

That models of any kind train as in `fit` is tested in test_kinds.py.
"""

from pathlib import Path

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

from mistakes import user_error
from nodewise.core.errors import RefusedError
from nodewise.models import fit_options, user_model
from nodewise.models.fit_options import FitOptions
from nodewise.models.training import Recipe
from nodewise.strategies import api, parts
from nodewise.strategies.api import Job
from nodewise.strategies.replica import Replica

HEAD = """
import keras
from keras import layers

def build():
"""
BATCH = tf.TensorSpec((8, 4), tf.float32), tf.TensorSpec((8,), tf.int64)


@pytest.fixture
def building(tmp_path, monkeypatch):
    """Return a function that takes the body of `build` and returns the builder of its model."""
    monkeypatch.chdir(tmp_path)

    def of(body):
        Path("mine.py").write_text(HEAD + "".join(f"    {line}\n" for line in body.splitlines()))
        return user_model.building("mine.py:build")

    return of


def test_a_preprocessor_of_keras_hub_is_refused_unless_it_is_taken_away(building):
    body = (
        "import keras_hub\n"
        "backbone = keras_hub.models.BertBackbone(9, 1, 1, 4, 4, max_sequence_length=4)\n"
        "words = ['[PAD]', '[CLS]', '[SEP]', '[UNK]', '[MASK]', 'yes', 'no']\n"
        "tokenizer = keras_hub.models.BertTokenizer(words)\n"
        "preprocessor = keras_hub.models.BertTextClassifierPreprocessor(tokenizer, 4)\n"
        "model = keras_hub.models.BertTextClassifier(backbone, 2, preprocessor)\n"
    )
    said = user_error(building(body + "return model"))
    assert said.startswith("mine.py:build: the model has a preprocessor, which only its own fit")
    building(body + "model.preprocessor = None\nreturn model")()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return None", "mine.py:build: must return a keras.Model, not nothing"),
        ("return keras.Sequential([layers.Dense(3)])", "the model is not compiled; call model"),
        ("raise ValueError('no such\\nthing')", "mine.py:build: ValueError: no such (mine.py:"),
        (
            "class Own(keras.Sequential):\n"
            "    def fit(self, *arguments, **options):\n"
            "        return super().fit(*arguments, **options)\n"
            "model = Own([keras.Input((4,)), layers.Dense(3)])\n"
            "model.compile('sgd', 'mse')\n"
            "return model",
            "mine.py:build: the model has a fit of its own, which strategies do not call",
        ),
        ("import tensorflow as tf; tf.distribute.MirroredStrategy()", "makes a tf.distribute"),
    ],
)
def test_what_is_no_compiled_model_is_told_in_one_line(building, body, said):
    assert said in user_error(building(body))


COMPILED = """
model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
model.compile("sgd", keras.losses.{loss}(from_logits=True))
return model
"""


OWN_STEP = """
class Own(keras.Model):
    def train_step(self, data):
        return {"loss": undefined}
model = Own()
model.compile("sgd", "mse")
return model
"""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (COMPILED.format(loss="CategoricalCrossentropy"), "ValueError: "),
        (OWN_STEP, "NameError: name 'undefined' is not defined (mine.py:9)"),
    ],
)
def test_what_goes_wrong_in_a_step_is_told_with_its_line(building, body, said):
    build = building(body)
    text = user_error(lambda: Replica(Job(0, 1, 8, 1, build, batch=BATCH)))
    assert text.startswith(f"mine.py:build: {said}")
    if "train_step" not in body:  # the same holds for a test_step
        batch = tf.ones((8, 4)), tf.ones((8,), tf.int64)
        assert user_error(build().test_step, batch).startswith(f"mine.py:build: {said}")


WRITTEN = """
import tensorflow as tf
class Own(keras.Sequential):
    def train_step(self, data):
        counter.assign_add(1.0)
        taught.kernel.assign(0.5 * taught.kernel)
        return super().train_step(data)
counter, taught = tf.Variable(1.0), layers.Dense(4, trainable=False)
still = layers.Dense(4, trainable=False)
normed = layers.SpectralNormalization(layers.Dense(4), trainable=False)
model = Own([keras.Input((4,)), taught, still, normed, layers.Dense(3)])
model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
return model
"""


def test_what_a_step_writes_is_set_back_and_averaged_and_only_that(building):
    build = building(WRITTEN)
    model = Replica(Job(0, 1, 8, 1, build, batch=BATCH)).model
    taught, still, normed, last = model.layers
    written = {id(taught.kernel), id(normed.vector_u)}
    assert {id(one) for one in api.moving_statistics(model)} == written
    changing = {id(one) for one in api.changing(model)}
    assert changing > written | {id(one) for one in [last.kernel, *model.only_in_closures]}
    assert not changing & {id(one) for one in [*still.weights, taught.bias]}  # nothing to copy
    said = user_error(lambda: Replica(Job(0, 2, 8, 1, build, batch=BATCH)))
    assert "changes Variable:0, which no attribute of the model leads to" in said


OWN_CALLBACK = "type('Mine', (keras.callbacks.Callback,), {'on_batch_end': print})()"
FITTED = """
model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
model.compile("sgd", "sparse_categorical_crossentropy")
return model, {options}
"""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("3", "must return a model, or a model and a dict of class_weight and callbacks"),
        ("{'epochs': 3}", "the only arguments of fit that are followed"),
        ("{'class_weight': 'balanced'}", "class_weight must be a dict of class numbers and weig"),
        ("{'class_weight': {0.5: 1.0}}", "class_weight must be a dict of class numbers"),
        ("{'callbacks': [print]}", "builtin_function_or_method is not supported; allowed"),
        ("{'callbacks': keras.callbacks.TerminateOnNaN()}", "TerminateOnNaN is not supported"),
        ("{'callbacks': keras.callbacks.ModelCheckpoint('a.keras', save_freq=9)}", "within epochs"),
        (f"{{'callbacks': [{OWN_CALLBACK}]}}", "Mine.on_batch_end is not supported; allowed are"),
    ],
)
def test_options_that_cannot_be_followed_are_told_in_one_line(building, options, said):
    assert said in user_error(building(FITTED.format(options=options)))


def test_class_weights_need_plain_labels_and_no_sample_weights(building):
    build = building(FITTED.format(options="{'class_weight': {0: 2.0}}"))
    weighted = (*BATCH, tf.TensorSpec((8,), tf.float32))
    said = user_error(lambda: Replica(Job(0, 1, 8, 1, build, batch=weighted)))
    assert said == ("mine.py:build: class_weight and sample weights do not go together, as in fit")
    several = BATCH[0], {"a": BATCH[1]}
    said = user_error(lambda: Replica(Job(0, 1, 8, 1, build, batch=several)))
    assert said.startswith("mine.py:build: class_weight needs one label for each example")


@pytest.mark.parametrize(
    "y",
    [
        [0, 1, 2, 3, 1],
        [[0], [1], [2], [3], [1]],
        [0.0, 0.6, 1.4, 3.0, 2.0],
        [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
    ],
)
def test_class_weights_become_the_sample_weights_of_fit(y):
    class Spy(keras.Model):
        def train_step(self, data):
            self.seen = data
            return {"loss": 0.0}

    weights, y = {0: 0.5, 2: 3.0}, np.array(y)
    spy = Spy()
    spy.compile(run_eagerly=True)
    spy.fit(np.zeros((len(y), 1)), y, class_weight=weights, batch_size=8, shuffle=False, verbose=0)
    found = fit_options.weighted((tf.zeros((len(y), 1)), tf.constant(y)), FitOptions(weights))
    np.testing.assert_array_equal(found[2], spy.seen[2])
    np.testing.assert_array_equal(found[1], y)
    assert found[2].dtype == spy.seen[2].dtype


MADE_AT_IMPORT = """
import keras
from keras import layers
WEIGHTS, RATE = tf.constant([1.0]), tf.Variable(0.5)
def compiled(*inside, optimizer="sgd", loss="mse"):
    model = keras.Sequential([keras.Input((4,)), *inside, layers.Dense(3)])
    model.compile(optimizer, loss)
    return model
net, rest = compiled(), [layers.Dense(2)]
adam = keras.optimizers.Adam()
def build(): return net
def use_layer(): return compiled(*rest)
def use_optimizer(): return compiled(optimizer=adam)
def use_tensors(): return compiled(loss=lambda y, made: tf.reduce_sum(made) * WEIGHTS * RATE)
"""


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("build", "'net' is made when the file is imported, but every replica needs"),
        ("use_layer", "'rest' is made when the file is imported"),
        ("use_optimizer", "'adam' is made when the file is imported"),
    ],
)
def test_parts_of_a_model_that_are_made_at_import_are_refused(
    tmp_path, monkeypatch, function, said
):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(f"import tensorflow as tf{MADE_AT_IMPORT}")
    assert said in user_error(user_model.building(f"mine.py:{function}"))
    model = user_model.building("mine.py:use_tensors")()
    assert model.layers[0].name == "dense_2"  # as in a new process, after the two at import


def test_metrics_that_are_made_at_import_are_refused_in_a_scope_only(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(
        "import keras\ntracker = keras.metrics.Mean()\nclass Own(keras.Sequential):\n"
        "    @property\n    def metrics(self):\n        return [tracker]\n"
        "def build():\n    keras.utils.clear_session()\n    model = Own([keras.Input((4,))])\n"
        "    model.compile('sgd', 'mse')\n    return model\n"
    )
    assert user_model.building("mine.py:build")().compiled
    with tf.distribute.OneDeviceStrategy("/cpu:0").scope():
        said = user_error(user_model.building("mine.py:build"))
    assert "'tracker' is made when the file is imported" in said


def test_a_model_that_is_compiled_to_run_eagerly_is_refused(building):
    model = "model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])\n"
    build = building(f"{model}model.compile('sgd', 'mse', run_eagerly=True)\nreturn model")
    assert "run_eagerly=True" in user_error(lambda: Recipe(build).built(None))


def test_the_user_s_file_is_imported_when_the_model_is_built_and_not_before(building):
    build = building("print(" + "'built')")
    Path("mine.py").write_text("raise ValueError('imported')")
    assert "imported (mine.py:1)" in user_error(build)


def test_a_saved_model_goes_on_as_it_was_saved(building):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(0.01), loss)
    model.fit(np.ones((8, 4)), np.zeros(8), verbose=0)
    model.save("saved.keras")
    build = building("return keras.models.load_model('saved.keras')")
    with pytest.raises(RefusedError, match="has the state of its optimizer, which this strategy"):
        parts.check(build())  # never lost silently
    replica = Replica(Job(0, 1, 8, 1, build, batch=BATCH))
    assert int(replica.model.optimizer.iterations) == 1
    x, y = np.ones((8, 4), "float32"), np.ones(8)
    replica.step((tf.constant(x), tf.constant(y, tf.int64)))
    model.fit(x, y, verbose=0)
    for found, expected in zip(
        [*replica.model.get_weights(), *(v.numpy() for v in replica.model.optimizer.variables)],
        [*model.get_weights(), *(v.numpy() for v in model.optimizer.variables)],
        strict=True,
    ):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
