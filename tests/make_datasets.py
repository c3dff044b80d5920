"""A small dataset in real files, and a registry that tells about it, for tests."""

import gzip
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from nodewise.datasets import idx

TRAIN, TEST, CLASSES = 60, 20, 10
NAMES = {
    "train_images": "train-images.gz",
    "train_labels": "train-labels.gz",
    "test_images": "test-images.gz",
    "test_labels": "test-labels.gz",
}


def contents(seed: int = 0) -> dict[str, bytes]:
    """Return IDX contents per role: random images of 28 × 28, labels below CLASSES."""
    rng = np.random.default_rng(seed)
    made = {}
    for split, examples in (("train", TRAIN), ("test", TEST)):
        images = rng.integers(0, 256, (examples, 28, 28, 1), np.uint8)
        labels = rng.integers(0, CLASSES, examples).astype(np.uint8)
        labels[0] = CLASSES - 1
        for kind, array in (("images", images), ("labels", labels)):
            made[f"{split}_{kind}"] = idx.header(array.shape) + array.tobytes()
    return made


def entry(
    told: dict[str, bytes] | None = None, urls: tuple[str, ...] = ("http://127.0.0.1:9",)
) -> dict[str, Any]:
    """Return a registry entry for `told`; its official addresses are below `urls`.

    Nothing listens on the default address, so that the official source fails at once.
    """
    told = told or contents()
    return {
        "title": "Sample images",
        "licence": "CC0-1.0",
        "licence_url": "https://creativecommons.org/publicdomain/zero/1.0/",
        "format": "idx",
        "stand_in": "digits",
        "classes": [f"class {i}" for i in range(CLASSES)],
        "shape": [28, 28, 1],
        "train_examples": TRAIN,
        "test_examples": TEST,
        "files": [
            {
                "role": role,
                "name": name,
                "content_sha256": hashlib.sha256(told[role]).hexdigest(),
                "urls": [f"{url}/{name}" for url in urls],
            }
            for role, name in NAMES.items()
        ],
    }


def write_registry(path: Path, sample: dict[str, Any]) -> Path:
    """Write a registry whose only dataset is `sample`."""
    path.write_text(yaml.safe_dump({"sample": sample}), encoding="utf-8")
    return path


def write_mirror(folder: Path, told: dict[str, bytes] | None = None) -> Path:
    """Write the dataset's files to `folder`/sample, packed; return `folder`."""
    (folder / "sample").mkdir(parents=True)
    for role, content in (told or contents()).items():
        (folder / "sample" / NAMES[role]).write_bytes(gzip.compress(content, 1, mtime=0))
    return folder
