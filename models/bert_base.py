"""BERT-base on movie reviews, as the NTUA multi-node study fine-tunes it (its figure 15, table I).

Twelve post-norm encoder layers of 768 units and twelve heads, a pooler, and a dense layer of 2;
109,483,778 parameters. The last encoder layer and the classifier are trained, 7,089,410 parameters;
what lies below, and the pooler, is frozen and computes as it would after training: dropout, 0.1 as
in BERT, is in the trained parts only. Adam, learning rate 2e-4.
Devlin et al., BERT: Pre-training of Deep Bidirectional Transformers, 2018 (arXiv:1810.04805).
"""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import keras
from keras import layers, ops

METADATA = {
    "title": "BERT-base",
    "dataset": "movie_reviews",
    "weights": "bert_base_uncased",
}

Activation = str | Callable[[keras.KerasTensor], keras.KerasTensor] | None

TOKENS = 512
DROPOUT = 0.1
CLASSIFIER = "classifier"


@dataclass(frozen=True)
class Sizes:
    """How large a BERT is; by default BERT-base, with the vocabulary of bert-base-uncased."""

    vocabulary: int = 30_522
    positions: int = 512
    segments: int = 2
    depth: int = 12
    width: int = 768
    heads: int = 12
    inner: int = 3072
    classes: int = 2


BASE = Sizes()

# The names of the original release: layers of the model, or of one encoder layer of it …
_LAYERS = {
    "word_embeddings": "embeddings.word_embeddings",
    "position_embeddings": "embeddings.position_embeddings",
    "segment_embeddings": "embeddings.token_type_embeddings",
    "embeddings_norm": "embeddings.LayerNorm",
    "attention_norm": "attention.output.LayerNorm",
    "intermediate": "intermediate.dense",
    "output": "output.dense",
    "output_norm": "output.LayerNorm",
    "pooler": "pooler.dense",
}
# … and what a layer holds, by the name that Keras gives it.
_VARIABLES = {
    "embeddings": "weight",
    "kernel": "weight",
    "bias": "bias",
    "gamma": "gamma",
    "beta": "beta",
}


def build() -> keras.Model:
    """Map token ids (batch, 512), uint16, 0 being padding, to logits (batch, 2), float32."""
    model = bert(BASE, TOKENS)
    model.compile(
        optimizer=keras.optimizers.Adam(learning_rate=2e-4),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def bert(sizes: Sizes, tokens: int) -> keras.Model:
    """Return a BERT of `sizes` for token ids (batch, tokens), with a classifier on its pooler."""
    ids = keras.Input((tokens,), dtype="uint16", name="ids")
    words = ops.cast(ids, "int32")
    there = ops.expand_dims(ops.not_equal(words, 0), 1)  # no token looks at padding
    last = sizes.depth - 1
    x = _embeddings(words, sizes)
    for number in range(sizes.depth):
        x = _encoder_layer(x, there, sizes, f"layer_{number}_", DROPOUT if number == last else 0)
    pooled = _dense(sizes.width, "pooler", "tanh")(x[:, 0])
    pooled = layers.Dropout(DROPOUT)(pooled)
    model = keras.Model(ids, _dense(sizes.classes, CLASSIFIER)(pooled), name="bert_base")
    for layer in model.layers:
        if layer.weights:
            layer.trainable = layer.name.startswith((f"layer_{last}_", CLASSIFIER))
    return model


def _embeddings(words: keras.KerasTensor, sizes: Sizes) -> keras.KerasTensor:
    """Add up the embeddings of the words, of their positions, and of the one segment there is."""
    positions = ops.cumsum(ops.ones_like(words), axis=1) - 1
    embedded = [
        layers.Embedding(entries, sizes.width, _start(), name=f"{name}_embeddings")(indices)
        for name, indices, entries in (
            ("word", words, sizes.vocabulary),
            ("position", positions, sizes.positions),
            ("segment", ops.zeros_like(words), sizes.segments),
        )
    ]
    return _norm("embeddings_norm")(layers.Add()(embedded))


def _encoder_layer(
    x: keras.KerasTensor, there: keras.KerasTensor, sizes: Sizes, name: str, dropout: float
) -> keras.KerasTensor:
    """Return what one encoder layer makes of x, (batch, tokens, width).

    `there`, (batch, 1, tokens), is false where there is padding. Names begin with `name`.
    """

    def residual(x: keras.KerasTensor, y: keras.KerasTensor, norm: str) -> keras.KerasTensor:
        y = layers.Dropout(dropout)(y) if dropout else y
        return _norm(name + norm)(layers.Add()([x, y]))

    attention = layers.MultiHeadAttention(
        sizes.heads,
        sizes.width // sizes.heads,
        dropout=dropout,
        kernel_initializer=_start(),
        name=f"{name}attention",
    )
    x = residual(x, attention(x, x, attention_mask=there), "attention_norm")
    y = _dense(sizes.inner, f"{name}intermediate", _gelu)(x)
    return residual(x, _dense(sizes.width, f"{name}output")(y), "output_norm")


def _gelu(x: keras.KerasTensor) -> keras.KerasTensor:
    return keras.activations.gelu(x, approximate=False)


def _start() -> keras.initializers.Initializer:
    return keras.initializers.TruncatedNormal(stddev=0.02)


def _norm(name: str) -> keras.Layer:
    return layers.LayerNormalization(epsilon=1e-12, name=name)


def _dense(units: int, name: str, activation: Activation = None) -> keras.Layer:
    return layers.Dense(units, activation, kernel_initializer=_start(), name=name)


def load_pretrained(model: keras.Model, file: Path) -> None:
    """Put the weights of BERT in `file`, safetensors, into `model`: all but the classifier's.

    Raises:
        SafetensorError: the file is damaged or lacks a tensor.
        ValueError: a tensor is not of the size that `model` needs.
    """
    from safetensors import safe_open

    with safe_open(file, framework="numpy") as tensors:
        for name, variable in pretrained(model).items():
            value = tensors.get_tensor(name)
            if variable.name == "kernel":
                value = value.T  # the file has (outputs, inputs)
            if value.size != math.prod(variable.shape):
                raise ValueError(f"{file}: {name}: {value.shape} does not fit {variable.shape}")
            variable.assign(value.reshape(variable.shape))  # attention has an axis for the heads


def pretrained(model: keras.Model) -> dict[str, keras.Variable]:
    """Return the variables of `model` that start from pretrained weights, by tensor name."""
    return {
        f"bert.{name}.{_VARIABLES[variable.name]}": variable
        for layer in model.layers
        for name, part in _parts(layer).items()
        for variable in part.weights
    }


def _parts(layer: keras.Layer) -> dict[str, keras.Layer]:
    """Return what `layer` is called in the original release; attention is four layers there."""
    encoder = re.match(r"layer_(\d+)_", layer.name)
    prefix = f"encoder.layer.{encoder[1]}." if encoder else ""
    own = layer.name[encoder.end() :] if encoder else layer.name
    if isinstance(layer, layers.MultiHeadAttention):
        return {
            f"{prefix}attention.self.query": layer.query_dense,
            f"{prefix}attention.self.key": layer.key_dense,
            f"{prefix}attention.self.value": layer.value_dense,
            f"{prefix}attention.output.dense": layer.output_dense,
        }
    return {f"{prefix}{_LAYERS[own]}": layer} if own in _LAYERS else {}
