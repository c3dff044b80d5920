"""The models match the studies: their sizes, inputs, one training step, pretrained weights."""

import json
import math

import numpy as np
import pytest
from PIL import Image
from scipy.special import erf, softmax

from nodewise.models import registry as models
from nodewise.models.facts import facts
from nodewise.models.registry import registry

CLASSES = {"natural_images": 8, "movie_reviews": 2}  # The other datasets have ten classes.
OPTIMIZERS = {
    "bert_base": ("Adam", 2e-4, None),
    "cifar10_cnn": ("Adam", 1e-3, None),
    "densenet121": ("Adam", 1e-3, None),
    "fashion_cnn": ("SGD", 0.01, 0.9),
    "fashion_mlp": ("Adam", 1e-3, None),
    "mnist_cnn": ("Adam", 1e-3, None),
    "resnet50": ("Adam", 1e-3, None),
}
LARGE = {"bert_base", "densenet121", "resnet50"}
rng = np.random.default_rng(1)


def examples(name, number):
    """Return random examples in the dataset's form, preprocessed for the model, and labels."""
    entry, module = registry()[name], models.load(name)
    shape = [28, 28, 1] if entry.dataset == "mnist" else facts(name).input_shape
    x = rng.integers(0, 256, (number, *shape)).astype(np.uint8)
    if name == "bert_base":
        x = rng.integers(1, 30_000, (number, *shape)).astype(np.uint16)
        x[:, 400:] = 0
    y = rng.integers(0, CLASSES.get(entry.dataset, 10), number).astype(np.uint8)
    return getattr(module, "preprocess", np.asarray)(x), y


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (name in LARGE)) for name in OPTIMIZERS],
)
def test_a_model_is_what_the_registry_says_and_trains(name):
    import keras
    import tensorflow as tf

    from nodewise.strategies.api import Job
    from nodewise.strategies.replica import Replica

    entry, module = registry()[name], models.load(name)
    x, y = (tf.constant(values) for values in examples(name, 2))
    job = Job(0, 1, 2, 1, module.build)
    replica = Replica(job)
    model = replica.model
    assert sum(math.prod(v.shape) for v in model.trainable_variables) == facts(name).trainable
    assert model.count_params() == facts(name).total
    assert model.input_shape == (None, *facts(name).input_shape) == (None, *x.shape[1:])
    assert model.inputs[0].dtype == x.dtype.name
    assert model.output_shape == (None, CLASSES.get(entry.dataset, 10))
    assert model.outputs[0].dtype == "float32"
    # The outputs are logits, not probabilities.
    assert model.layers[-1].activation is keras.activations.linear
    optimizer = model.optimizer
    kind, rate, momentum = OPTIMIZERS[name]
    assert type(optimizer).__name__ == kind
    assert float(optimizer.learning_rate.numpy()) == pytest.approx(rate)
    assert getattr(optimizer, "momentum", None) == momentum

    trained = {id(variable) for variable in model.trainable_variables}
    before = [np.array(variable.numpy()) for variable in model.weights]
    logs = replica.step((x, y))
    assert set(logs) == {"loss", "accuracy"}
    assert np.isfinite(logs["loss"])
    moved = [
        not np.array_equal(old, variable.numpy())
        for old, variable in zip(before, model.weights, strict=True)
    ]
    for variable, has_moved in zip(model.weights, moved, strict=True):
        statistic = "moving_" in variable.name and variable.path not in frozen_paths(model)
        assert has_moved == (id(variable) in trained or statistic), variable.path


def frozen_paths(layer):
    """Return the paths of the weights in frozen layers."""
    if not layer.trainable:
        return {variable.path for variable in layer.weights}
    inner = getattr(layer, "layers", ())
    return {path for part in inner for path in frozen_paths(part)}


def test_every_model_of_the_registry_is_tested():
    assert registry().keys() == OPTIMIZERS.keys()


@pytest.mark.slow
@pytest.mark.parametrize(("name", "package"), [("densenet121", "densenet"), ("resnet50", "resnet")])
def test_pixels_are_scaled_as_the_pretrained_weights_want_them(name, package):
    import keras

    x = rng.integers(0, 256, (2, *facts(name).input_shape)).astype(np.uint8)
    if name == "resnet50":
        x[:] = x[..., :1]  # This model gets grey pictures.
    scaled = models.load(name).build().layers[0](x)
    wanted = getattr(keras.applications, package).preprocess_input(x.astype(np.float32))
    np.testing.assert_allclose(scaled, wanted, atol=1e-4)


def test_digits_become_larger_and_have_three_equal_channels():
    digits = np.zeros((3, 28, 28, 1), np.uint8)
    digits[0, 5:20, 9:15] = 255
    digits[1] = rng.integers(0, 256, (28, 28, 1))
    prepared = models.load("resnet50").preprocess(digits).numpy()
    assert prepared.shape == (3, 32, 32, 3)
    assert prepared.dtype == np.uint8
    assert (prepared == prepared[..., :1]).all()
    for digit, made in zip(digits, prepared, strict=True):
        wanted = Image.fromarray(digit[..., 0]).resize((32, 32), Image.Resampling.BILINEAR)
        assert np.abs(made[..., 0].astype(int) - np.asarray(wanted, int)).max() <= 1


def test_augmentation_changes_each_picture_in_its_own_way():
    import tensorflow as tf

    tf.random.set_seed(1)
    y, x = np.mgrid[:128, :128] / 127  # smooth pictures that are dark on the left
    photo = np.stack([200 * x + 20 * y, 100 * y + 100 * x, 255 * x], axis=-1)
    pictures = np.stack([photo] * 200).astype(np.uint8)
    changed = models.load("densenet121").augment(tf.constant(pictures))
    assert changed.shape == pictures.shape
    assert changed.dtype == tf.uint8
    changed = changed.numpy()
    assert len({picture.tobytes() for picture in (*changed, pictures[0])}) == 201
    left, right = (half.mean(axis=(1, 2, 3)) for half in np.split(changed, 2, axis=2))
    assert 70 < (left > right).sum() < 130  # Half of the pictures are flipped.


# BERT


@pytest.fixture(scope="module")
def bert():
    return models.load("bert_base")


def tensors_of(bert, model):
    """Return random weights with the names and shapes of the original release."""
    tensors = {}
    for name, variable in bert.pretrained(model).items():
        shape = tuple(variable.shape)
        if variable.name == "kernel":
            joined = "output.dense" in name and len(shape) == 3
            inputs = math.prod(shape[:2]) if joined else shape[0]
            shape = (math.prod(shape) // inputs, inputs)
        elif variable.name == "bias":
            shape = (math.prod(shape),)
        scale = 0.3 if name.endswith("weight") else 0.1
        tensors[name] = rng.normal(0, scale, shape).astype(np.float32)
        if name.endswith("gamma"):
            tensors[name] += 1
    return tensors


def reference(tensors, classifier, ids, depth, heads):
    """Return the logits of BERT, implemented from its paper in NumPy with float64."""
    t = {name.removeprefix("bert."): value.astype(float) for name, value in tensors.items()}

    def dense(x, name):
        return x @ t[f"{name}.weight"].T + t[f"{name}.bias"]

    def norm(x, name):
        centred = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return centred / deviation * t[f"{name}.LayerNorm.gamma"] + t[f"{name}.LayerNorm.beta"]

    def split(x):
        return x.reshape(*x.shape[:2], heads, -1).transpose(0, 2, 1, 3)

    words, positions, segments = (
        t[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")
    )
    x = norm(words[ids] + positions[: ids.shape[1]] + segments[0], "embeddings")
    for number in range(depth):
        layer = f"encoder.layer.{number}"
        query, key, value = (
            split(dense(x, f"{layer}.attention.self.{part}")) for part in ("query", "key", "value")
        )
        scores = query @ key.transpose(0, 1, 3, 2) / np.sqrt(query.shape[-1])
        seen = softmax(np.where(ids[:, None, None] != 0, scores, -np.inf), axis=-1) @ value
        joined = seen.transpose(0, 2, 1, 3).reshape(x.shape)
        x = norm(x + dense(joined, f"{layer}.attention.output.dense"), f"{layer}.attention.output")
        inner = dense(x, f"{layer}.intermediate.dense")
        inner = inner * (1 + erf(inner / np.sqrt(2))) / 2
        x = norm(x + dense(inner, f"{layer}.output.dense"), f"{layer}.output")
    kernel, bias = classifier
    return np.tanh(dense(x[:, 0], "pooler.dense")) @ kernel + bias


def test_bert_with_weights_of_a_file_computes_what_the_paper_says(bert, tmp_path):
    from safetensors.numpy import save_file

    sizes = bert.Sizes(vocabulary=50, positions=24, depth=3, width=12, heads=3, inner=20)
    model = bert.bert(sizes, 16)
    tensors = tensors_of(bert, model)
    save_file(tensors | {"cls.predictions.bias": np.zeros(50, np.float32)}, tmp_path / "tiny")
    ids = rng.integers(1, 50, (4, 16)).astype(np.uint16)
    ids[:, 11:] = 0
    classifier = rng.normal(size=(12, 2)), rng.normal(size=2)
    model.get_layer("classifier").set_weights(classifier)
    untouched = model(ids).numpy()
    bert.load_pretrained(model, tmp_path / "tiny")
    wanted = reference(tensors, classifier, ids, sizes.depth, sizes.heads)
    np.testing.assert_allclose(model(ids).numpy(), wanted, rtol=1e-4, atol=1e-4)
    assert np.abs(untouched - wanted).max() > 0.1


@pytest.mark.slow
def test_names_and_shapes_of_bert_fill_the_published_file_to_the_byte(bert):
    """That file also contains the head with which BERT was pretrained."""
    model = bert.build()
    assert {id(v) for v in model.weights} - {id(v) for v in bert.pretrained(model).values()} == {
        id(v) for v in model.get_layer("classifier").weights
    }
    shapes = {name: list(tensor.shape) for name, tensor in tensors_of(bert, model).items()}
    shapes |= {
        "cls.predictions.bias": [30522],
        "cls.predictions.transform.LayerNorm.beta": [768],
        "cls.predictions.transform.LayerNorm.gamma": [768],
        "cls.predictions.transform.dense.bias": [768],
        "cls.predictions.transform.dense.weight": [768, 768],
        "cls.seq_relationship.bias": [2],
        "cls.seq_relationship.weight": [2, 768],
    }
    header, end = {"__metadata__": {"format": "pt"}}, 0
    for name in sorted(shapes):
        begin, end = end, end + 4 * math.prod(shapes[name])
        header[name] = {"dtype": "F32", "shape": shapes[name], "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":"))
    assert 8 + math.ceil(len(text) / 8) * 8 + end == 440_449_768


# The backbones of keras.applications


@pytest.mark.slow
@pytest.mark.parametrize("name", ["densenet121", "resnet50"])
def test_backbones_are_filled_from_a_file_of_keras_applications(name, tmp_path):
    import h5py

    module = models.load(name)
    model = module.build()
    backbone = model.get_layer("backbone")
    written = []
    with h5py.File(tmp_path / "weights_notop.h5", "w") as file:
        layers = [layer for layer in backbone.layers if layer.weights]
        file.attrs["layer_names"] = [layer.name.encode() for layer in layers]
        for layer in layers:
            group = file.create_group(layer.name)
            group.attrs["weight_names"] = [v.name.encode() for v in layer.weights]
            for variable in layer.weights:
                written.append(rng.normal(size=variable.shape).astype(np.float32))
                group[variable.name] = written[-1]
    head = [np.array(w) for w in model.layers[-1].get_weights()]
    module.load_pretrained(model, tmp_path / "weights_notop.h5")
    filled = [v for layer in backbone.layers for v in layer.weights]
    assert len(filled) == len(written) == len(backbone.weights)
    assert all(np.array_equal(v.numpy(), w) for v, w in zip(filled, written, strict=True))
    assert all(
        np.array_equal(a, b) for a, b in zip(head, model.layers[-1].get_weights(), strict=True)
    )
    other = models.load("resnet50" if name == "densenet121" else "densenet121")
    with pytest.raises(ValueError, match="layer"):
        other.load_pretrained(other.build(), tmp_path / "weights_notop.h5")
