"""Make descriptions of models for tests, without TensorFlow."""

from collections.abc import Sequence
from pathlib import Path

from nodewise.core.files import write_text
from nodewise.core.schema import json_text
from nodewise.models.facts import facts
from nodewise.results.model_description import Architecture


def fashion_cnn() -> Architecture:
    """Return the description of `models/fashion_cnn.py`, with a text that must be escaped."""
    about = ["The Fashion-MNIST network.", "One convolution and <b>two</b> dense layers."]
    return facts("fashion_cnn").model_copy(update={"about": about})


def write(described: Sequence[Architecture], folder: Path) -> Path:
    """Write each description to `folder/<model>.json`, and return the folder."""
    for one in described:
        write_text(folder / f"{one.model}.json", json_text(one))
    return folder
