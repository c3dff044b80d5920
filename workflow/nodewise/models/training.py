"""How to build and feed a cell's model: the functions of a model file or of a user's own model.

Imports TensorFlow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import tensorflow as tf

from nodewise.core.cell import Cell
from nodewise.core.errors import RefusedError
from nodewise.models import registry

OnBatch = Callable[[tf.Tensor], tf.Tensor]


@dataclass(frozen=True)
class Recipe:
    """How to build and feed a model.

    Attributes:
        build: returns a compiled model.
        preprocess: turns a batch of the dataset into one for the model, in training and evaluation.
        augment: changes a preprocessed batch at random, in training only.
        load_pretrained: loads pretrained weights from a file into a built model.
    """

    build: Callable[[], keras.Model]
    preprocess: OnBatch = lambda x: x
    augment: OnBatch = lambda x: x
    load_pretrained: Callable[[keras.Model, Path], None] | None = None

    def built(self, weights: Path | None) -> keras.Model:
        """Return a new model, with pretrained `weights` if given and supported.

        Raises:
            RefusedError: the model is compiled to run eagerly.
        """
        model = self.build()
        if model.run_eagerly or tf.config.functions_run_eagerly():
            raise RefusedError(
                "the model is to run eagerly, but strategies run its train_step as a graph; leave "
                "out run_eagerly=True and tf.config.run_functions_eagerly"
            )
        if weights is not None and self.load_pretrained is not None:
            self.load_pretrained(model, weights)
        return model


def recipe_of(cell: Cell) -> Recipe:
    """Return the recipe of the model that `cell` trains.

    Raises:
        UserError: the user's own model cannot be used.
    """
    if cell.build is not None:
        from nodewise.models import user_model

        return Recipe(user_model.building(cell.build))
    module = registry.load(cell.model)
    optional: dict[str, Any] = {
        name: getattr(module, name)
        for name in ("preprocess", "augment", "load_pretrained")
        if hasattr(module, name)
    }
    return Recipe(module.build, **optional)
