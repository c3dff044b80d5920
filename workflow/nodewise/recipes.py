"""What training a cell's model takes: the functions of a model file, or of a user's own model.

Imports TensorFlow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from nodewise import models
from nodewise.cells import Cell
from nodewise.datasets import Dataset
from nodewise.strategies.base import cross_entropy

OnBatch = Callable[[tf.Tensor], tf.Tensor]


def _as_it_is(x: tf.Tensor) -> tf.Tensor:
    return x


@dataclass(frozen=True)
class Recipe:
    """How to build and feed a model.

    `preprocess` turns a batch of the dataset into one for the model, in training and evaluation;
    `augment` changes a preprocessed batch at random, in training alone. `loss` takes labels and
    logits and returns one loss per example. `load_pretrained` fills a built model from a file.
    """

    build: Callable[[], keras.Model]
    optimizer: Callable[[], keras.optimizers.Optimizer]
    loss: Callable[[tf.Tensor, tf.Tensor], tf.Tensor] = cross_entropy
    preprocess: OnBatch = _as_it_is
    augment: OnBatch = _as_it_is
    load_pretrained: Callable[[keras.Model, Path], None] | None = None

    def built(self, weights: Path | None) -> keras.Model:
        """Return a new model, with the pretrained `weights` if there are any that it can take."""
        model = self.build()
        if weights is not None and self.load_pretrained is not None:
            self.load_pretrained(model, weights)
        return model


def recipe_of(cell: Cell, data: Dataset) -> Recipe:
    """Return the recipe of the model that `cell` trains on `data`.

    Raises:
        UserError: the user's own model cannot be used.
    """
    if cell.build is not None:
        from nodewise import own

        return own.recipe(cell.build, data)
    module = models.load(cell.model)
    optional: dict[str, Any] = {
        name: getattr(module, name)
        for name in ("preprocess", "augment", "load_pretrained")
        if hasattr(module, name)
    }
    return Recipe(module.build, module.optimizer, **optional)
