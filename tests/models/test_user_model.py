"""A user's own models, as they come: trained with what they bring, or refused in one line.

Each `build()` is written to a file, as a user would. Refusals are of things that would otherwise
fail deep in TensorFlow, or worse, train wrongly without a word.
"""

from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf

from nodewise.core.errors import UserError
from nodewise.data import Dataset
from nodewise.models import user_model
from nodewise.models.training import cross_entropy
from nodewise.strategies.api import Job, Replica

HEAD = "import keras\nfrom keras import layers, losses, optimizers\n\n"
TRUNK = "keras.Input((4, 4, 1), dtype='uint8'), layers.Rescaling(1 / 255), layers.Flatten()"
LOGITS = f"keras.Sequential([{TRUNK}, layers.Dense(3)])"
PROBABILITIES = f"keras.Sequential([{TRUNK}, layers.Dense(3, activation='softmax')])"


def dataset(shape=(4, 4, 1), dtype="uint8", labels=3) -> Dataset:
    random = np.random.default_rng(1)
    x = random.integers(0, 256, (60, *shape)).astype(dtype)
    y = (np.arange(60) % labels).astype(np.uint8)
    return Dataset(SimpleNamespace(dataset="mine"), (x, y), (x[:30], y[:30]))


@pytest.fixture
def recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def make(code: str, data: Dataset | None = None):
        lines = code if "def build" in code else f"def build():\n    return {code}\n"
        Path("mine.py").write_text(HEAD + lines)
        return user_model.recipe("mine.py:build", data or dataset())

    return make


def compiled(model: str, how: str) -> str:
    return f"def build():\n    model = {model}\n    model.compile({how})\n    return model\n"


def refusal(recipe) -> str:
    with pytest.raises(UserError) as caught:
        recipe.build()
    said = str(caught.value)
    assert said.startswith("mine.py:build: ")
    assert "\n" not in said
    return said


def losses_of(recipe) -> tuple[np.ndarray, np.ndarray]:
    """Return what a fresh model gives for its data, and its losses."""
    data, model = dataset(), recipe.build()
    outputs = model(tf.constant(data.x_train), training=False)
    return outputs.numpy(), recipe.loss(tf.constant(data.y_train), outputs).numpy()


def minus_log(probabilities: np.ndarray) -> np.ndarray:
    labels = dataset().y_train
    return -np.log(probabilities[np.arange(len(labels)), labels])


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def test_an_uncompiled_model_gets_sgd_and_cross_entropy_on_logits(recipe):
    made = recipe(LOGITS)
    outputs, losses = losses_of(made)
    np.testing.assert_allclose(losses, minus_log(softmax(outputs)), rtol=1e-5)
    assert isinstance(made.optimizer(), keras.optimizers.SGD)
    assert float(made.optimizer().learning_rate) == pytest.approx(0.01)


@pytest.mark.parametrize(
    "model",
    [
        PROBABILITIES,
        f"keras.Sequential([{TRUNK}, layers.Dense(3), layers.Softmax()])",
        f"keras.Sequential([{LOGITS}, layers.Activation('softmax')])",
    ],
)
def test_a_softmax_is_not_applied_twice(recipe, model):
    outputs, losses = losses_of(recipe(model))
    np.testing.assert_allclose(losses, minus_log(outputs), rtol=1e-4)


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (PROBABILITIES, "'sparse_categorical_crossentropy'"),
        (PROBABILITIES, "losses.SparseCategoricalCrossentropy()"),
        (PROBABILITIES, "'categorical_crossentropy'"),
        (PROBABILITIES, "losses.CategoricalCrossentropy()"),
        (LOGITS, "losses.SparseCategoricalCrossentropy(from_logits=True)"),
        (LOGITS, "losses.CategoricalCrossentropy(from_logits=True)"),
        (LOGITS, "None"),
    ],
)
def test_cross_entropy_is_the_same_in_all_its_forms(recipe, model, loss):
    outputs, losses = losses_of(recipe(compiled(model, f"loss={loss}")))
    probabilities = outputs if model == PROBABILITIES else softmax(outputs)
    np.testing.assert_allclose(losses, minus_log(probabilities), rtol=1e-4)


def test_the_compiled_loss_is_used_with_its_settings(recipe):
    smoothed = "losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.3)"
    outputs, losses = losses_of(recipe(compiled(LOGITS, f"loss={smoothed}")))
    target = np.eye(3)[dataset().y_train] * 0.7 + 0.1
    expected = -(target * np.log(softmax(outputs))).sum(axis=1)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


def test_a_loss_of_the_user_s_own_gets_labels_as_the_dataset_has_them(recipe):
    code = (
        "def worth(y_true, y_pred):\n"
        "    return keras.ops.cast(y_true, 'float32') * 10 + y_pred[:, 0] * 0\n\n"
    )
    _, losses = losses_of(recipe(code + compiled(LOGITS, "loss=worth")))
    np.testing.assert_allclose(losses, dataset().y_train * 10.0)


def test_the_compiled_optimizer_is_copied_fresh_for_each_replica(recipe):
    schedule = "optimizers.schedules.ExponentialDecay(0.05, 10, 0.5)"
    made = recipe(compiled(LOGITS, f"optimizer=optimizers.Adam({schedule}, beta_1=0.8)"))
    model = made.build()
    first, second = made.optimizer(), made.optimizer()
    assert first is not second
    assert first is not model.optimizer
    assert first.get_config() == model.optimizer.get_config()
    first.build(model.trainable_variables)
    first.apply([tf.ones_like(v) for v in model.trainable_variables], model.trainable_variables)
    assert (int(first.iterations), int(second.iterations)) == (1, 0)


SUBCLASSED = """
class Mine(keras.Model):
    def __init__(self):
        super().__init__()
        self.inner = keras.Sequential([layers.Flatten(), layers.Dense(3)])

    def call(self, x):
        return self.inner(keras.ops.cast(x, "float32") / 255)

def build():
    model = Mine()
    {built}
    return model
"""


@pytest.mark.parametrize("built", ["model.build((None, 4, 4, 1))", "pass"])
def test_a_subclassed_model_trains_whether_it_is_built_or_not(recipe, built):
    made = recipe(SUBCLASSED.format(built=built))
    data = dataset()
    replica = Replica(Job(0, 1, 60, 1, made.build, made.optimizer, made.loss))
    batch = tf.constant(data.x_train), tf.constant(data.y_train)
    losses = [float(replica.step(*batch)[0]) for _ in range(30)]
    assert losses[-1] < losses[0]


def test_the_same_seed_gives_the_same_first_weights(recipe):
    made = recipe(LOGITS)
    first, second = (
        Replica(Job(0, 1, 60, 1, made.build, made.optimizer, made.loss)) for _ in range(2)
    )
    for one, other in zip(first.model.weights, second.model.weights, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("None", "must return a keras.Model, not nothing"),
        ("42", "must return a keras.Model, not a int"),
        ("layers.Dense(3)", "must return a keras.Model, not a Dense"),
        (
            LOGITS.replace("(4, 4, 1)", "(8, 8, 3)"),
            "takes examples of shape 8×8×3, but those of mine have 4×4×1 (uint8)",
        ),
        (
            "keras.Model([a := keras.Input((4,)), b := keras.Input((4,))], layers.Add()([a, b]))",
            "must have one input, not 2",
        ),
        (
            "keras.Sequential([keras.Input((4, 4, 1)), layers.Conv2D(3, 3)])",
            "must give (batch, classes), but for a batch of 8 it gives 8×2×2×3",
        ),
        (LOGITS.replace("Dense(3)", "Dense(2)"), "gives 2 numbers per example, for labels 0 to 1"),
        (LOGITS.replace("Dense(3)", "Dense(3, dtype='float16')"), "must give float32, not float16"),
        (
            "keras.Model(i := keras.Input((4, 4, 1)), "
            "[layers.Dense(3)(layers.Flatten()(i)), layers.Flatten()(i)])",
            "must give one tensor, not a list",
        ),
        ("keras.Sequential([keras.Input((4, 4, 1)), layers.Flatten()])", "no trainable weights"),
        (LOGITS.replace("Dense(3)", "Dense(3, kernel_regularizer='l2')"), "losses of its own"),
        (compiled(LOGITS, "loss='sparse_categorical_crossentropy'"), "gives logits, but its loss"),
        (compiled(LOGITS, "loss='categorical_crossentropy'"), "from_logits=True, or the last"),
        (
            compiled(PROBABILITIES, "loss=losses.SparseCategoricalCrossentropy(from_logits=True)"),
            "gives probabilities (a softmax), but its loss has from_logits=True",
        ),
        (compiled(LOGITS, "loss={'dense': 'mse'}"), "must have one loss, not several"),
        (compiled(LOGITS, "optimizers.SGD(loss_scale_factor=8)"), "optimizer scales the loss"),
        (
            compiled(LOGITS, "optimizers.LossScaleOptimizer(optimizers.SGD())"),
            "optimizer scales the loss",
        ),
        (
            compiled(
                LOGITS, "(o := optimizers.AdamW(), o.exclude_from_weight_decay(None, ['bias']))[0]"
            ),
            "excludes weights from weight decay",
        ),
        (
            compiled(
                LOGITS,
                "optimizers.MultiOptimizer(optimizers.OptimizerMap(optimizers.SGD(clipnorm=1)))",
            ),
            "must have one optimizer, not several in a MultiOptimizer",
        ),
        (compiled(LOGITS, "optimizers.SGD(use_ema=True)"), "averages weights (use_ema)"),
        (
            compiled(LOGITS, "optimizers.SGD(gradient_accumulation_steps=2)"),
            "has gradient_accumulation_steps, but here every step is an update",
        ),
        (
            compiled(LOGITS, "loss='mse', loss_weights=0.5"),
            "must have one loss, which is not weighted (loss_weights)",
        ),
        (
            f"keras.Sequential([{LOGITS}, layers.BatchNormalization(synchronized=True, name='n')])",
            "n is synchronized over workers, which is not done here",
        ),
        (
            SUBCLASSED.format(built="pass").replace(
                "    def call", "    def train_step(self, data):\n        return {}\n\n    def call"
            ),
            "has a train_step of its own",
        ),
        (compiled(LOGITS, "loss='no_such_loss'"), "Could not interpret loss"),
        ("keras.Sequential([layers.Dense(3)]).missing", "AttributeError"),
        (
            SUBCLASSED.format(built="pass").replace("return self.inner", "return self.wrong"),
            "AttributeError: 'Mine' object has no attribute 'wrong'",
        ),
    ],
)
def test_a_model_that_cannot_train_is_refused_in_one_line(recipe, code, said):
    assert said in refusal(recipe(code))


def test_a_weight_without_influence_is_named(recipe):
    code = SUBCLASSED.format(built="pass").replace(
        "def call", "    self.idle = self.add_weight(shape=(2,), name='idle')\n\n    def call"
    )
    said = refusal(recipe(code))
    assert "idle has no influence on the output" in said


def test_examples_that_a_model_cannot_take_are_told_with_the_user_s_line(recipe):
    code = SUBCLASSED.format(built="pass").replace("layers.Flatten(), ", "")
    wrong = recipe(code.replace('keras.ops.cast(x, "float32") / 255', "keras.ops.matmul(x, x[0])"))
    assert "(mine.py:" in refusal(wrong)


def test_the_default_loss_is_the_project_s_own_for_logits(recipe):
    outputs, losses = losses_of(recipe(LOGITS))
    y = tf.constant(dataset().y_train)
    np.testing.assert_allclose(losses, cross_entropy(y, tf.constant(outputs)).numpy(), rtol=1e-5)
