"""Make small datasets for tests, in files of every format, with their entries of a registry."""

import gzip
import hashlib
import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from PIL import Image

from mistakes import user_error
from nodewise.data import Dataset, load, prepare
from nodewise.data.formats import cifar_binary
from nodewise.data.formats.idx import header
from nodewise.data.manifest import Manifest

URL = ("http://127.0.0.1:9",)  # Nothing listens there: the official source fails at once.
TRAIN, TEST, CLASSES = 60, 20, 10
NAMES = {
    "train_images": "train-images.gz",
    "train_labels": "train-labels.gz",
    "test_images": "test-images.gz",
    "test_labels": "test-labels.gz",
}


def contents() -> dict[str, bytes]:
    """Return the contents of IDX files by role: random images of 28 × 28 and labels < CLASSES."""
    rng = np.random.default_rng(0)
    made = {}
    for split, examples in (("train", TRAIN), ("test", TEST)):
        images = rng.integers(0, 256, (examples, 28, 28, 1), np.uint8)
        labels = rng.integers(0, CLASSES, examples).astype(np.uint8)
        labels[0] = CLASSES - 1
        for kind, array in (("images", images), ("labels", labels)):
            made[f"{split}_{kind}"] = header(array.shape) + array.tobytes()
    return made


def entry(told: dict[str, bytes] | None = None) -> dict[str, Any]:
    """Return the registry entry of a dataset with the contents `told`, by role."""
    told = told or contents()
    return {
        "title": "Sample images",
        "licence": "CC0-1.0",
        "licence_url": "https://creativecommons.org/publicdomain/zero/1.0/",
        "synthetic": True,
        "classes": [f"class {i}" for i in range(CLASSES)],
        "shape": [28, 28, 1],
        "dtype": "uint8",
        "train_examples": TRAIN,
        "test_examples": TEST,
        "releases": [
            {
                "format": "idx",
                "files": [
                    {"role": role} | file(name, told[role], URL) for role, name in NAMES.items()
                ],
            }
        ],
    }


def file(name: str, content: bytes, urls: tuple[str, ...]) -> dict[str, Any]:
    """Return the registry entry of a file; its official URLs begin with `urls`."""
    return {
        "name": name,
        "content_sha256": hashlib.sha256(content).hexdigest(),
        "content_bytes": len(content),
        "urls": [f"{url}/{name}" for url in urls],
    }


def write_registry(path: Path, sample: dict[str, Any]) -> Path:
    """Write a registry with one dataset, whose name is `sample`, and return its path."""
    path.write_text(yaml.safe_dump({"sample": sample}), encoding="utf-8")
    return path


COLOUR_CLASSES = ["cat", "dog", "hen"]
COLOUR_SHAPE = (8, 6, 3)
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "##s", "the", "."]
REVIEW_TOKENS = 8


def zipped(files: dict[str, bytes]) -> bytes:
    """Return a zip archive of `files`."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(zipfile.ZipInfo(name), content)
    return packed.getvalue()


def tarred(files: dict[str, bytes]) -> bytes:
    """Return a .tar.gz archive of `files`."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def jpeg(colour: tuple[int, int, int], shape: tuple[int, ...] = COLOUR_SHAPE) -> bytes:
    """Return a JPEG file of one colour, which is kept to within a few levels."""
    packed = io.BytesIO()
    Image.new("RGB", (shape[1], shape[0]), colour).save(packed, "JPEG", quality=95)
    return packed.getvalue()


def colour(part: int, label: int, number: int) -> tuple[int, int, int]:
    """Return the colour of a picture, which identifies its part, label and number."""
    return (part * 200, label * 80, number * 40)


def pictures(folders: tuple[str, ...], each: tuple[int, ...]) -> dict[str, bytes]:
    """Return JPEG files by path; folder i has `each[i]` files of each class."""
    return {
        f"{folder}/{name}/{number:04}.jpg": jpeg(colour(part, label, number))
        for part, folder in enumerate(folders)
        for label, name in enumerate(COLOUR_CLASSES)
        for number in range(each[part])
    }


def reviews(each: int) -> dict[str, bytes]:
    """Return text files by path: `each` different ones of each of two classes, and a README."""
    texts = {
        f"reviews/{name}/cv{number:03}.txt": f"the {word} films" + " ." * number
        for name, word in (("neg", "bad"), ("pos", "good"))
        for number in range(each)
    }
    return {name: text.encode() for name, text in texts.items()} | {"reviews/README": b"Read me."}


def binary_batches() -> dict[str, bytes]:
    """Return the files of the format `cifar_binary`: 2 images per training file, 4 for testing."""
    rng = np.random.default_rng(5)
    row = 1 + int(np.prod(COLOUR_SHAPE))
    made = {}
    for name in (*cifar_binary.TRAIN, *cifar_binary.TEST):
        rows = rng.integers(0, 256, (2 if name in cifar_binary.TRAIN else 4, row), np.uint8)
        rows[:, 0] %= len(COLOUR_CLASSES)
        made[f"{cifar_binary.FOLDER}/{name}"] = rows.tobytes()
    return made | {f"{cifar_binary.FOLDER}/readme.html": b"<html>"}


def colour_entry(*releases: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """Return the registry entry of a dataset of 10 + 4 colour pictures."""
    return (
        entry()
        | {
            "synthetic": False,
            "classes": COLOUR_CLASSES,
            "shape": list(COLOUR_SHAPE),
            "train_examples": 10,
            "test_examples": 4,
            "split_seed": 3,
            "releases": list(releases),
        }
        | changes
    )


def binary_release(packed: bytes) -> dict[str, Any]:
    """Return a release in the format of CIFAR-10's official one."""
    return {"format": "cifar_binary", "file": file("binary.tar.gz", packed, URL)}


def image_release(packed: bytes, *folders: str) -> dict[str, Any]:
    """Return a release of pictures that differs from the official one."""
    told = file("images.zip", packed, ())
    return {"format": "image_zip", "note": "smaller", "folders": list(folders), "file": told}


def vocabulary() -> bytes:
    """Return the vocabulary file of `WORDS`."""
    return "".join(f"{word}\n" for word in WORDS).encode()


def idx(told: dict[str, bytes] | None = None) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the registry entry of a dataset in IDX files, and a mirror's files by path."""
    told = told or contents()
    packed = {f"sample/{NAMES[role]}": gzip.compress(c, 1, mtime=0) for role, c in told.items()}
    return entry(told), packed


def made(name: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a complete dataset of one kind: its registry entry, and a mirror's files by path."""
    if name == "idx":
        return idx()
    if name == "cifar_binary":
        archive = tarred(binary_batches())
        return colour_entry(binary_release(archive)), {"sample/binary.tar.gz": archive}
    if name == "image_zip, two folders":
        archive = zipped(pictures(("all/train", "all/test"), (4, 2)))
        told = colour_entry(
            image_release(archive, "all/train", "all/test"), train_examples=12, test_examples=6
        )
        return told, {"sample/images.zip": archive}
    archive = zipped(pictures(("all",), (5,)))
    told = colour_entry(image_release(archive, "all"), train_examples=11)
    return told, {"sample/images.zip": archive}


def review_sample(
    change: dict[str, bytes], vocabulary: bytes
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a dataset of 9 + 3 texts, some of them changed: its entry, and files by path."""
    packed = zipped(reviews(6) | change)
    release = {
        "format": "review_zip",
        "folder": "reviews",
        "file": file("reviews.zip", packed, URL),
        "vocabulary": file("vocab.txt", vocabulary, URL) | {"folder": "words"},
        "vocabulary_size": len(WORDS),
    }
    told = {
        "synthetic": True,
        "classes": ["neg", "pos"],
        "shape": [REVIEW_TOKENS],
        "dtype": "uint16",
        "train_examples": 9,
        "test_examples": 3,
        "split_seed": 3,
        "releases": [release],
    }
    return entry() | told, {"sample/reviews.zip": packed, "words/vocab.txt": vocabulary}


class Sample:
    """A registry with one dataset, a mirror with its files, a cache and an output folder."""

    def __init__(
        self,
        root: Path,
        told: dict[str, Any] | None = None,
        files: dict[str, bytes] | None = None,
    ) -> None:
        if told is None or files is None:
            told, files = idx()
        root.mkdir(exist_ok=True)
        self.registry = write_registry(root / "registry.yaml", told)
        self.mirror = write_files(root / "mirror", files)
        self.cache, self.out = root / "cache", root / "out"

    def prepare(self, **changes: Any) -> Manifest:
        """Prepare the dataset; `changes` are arguments that differ from the usual ones."""
        arguments: dict[str, Any] = {
            "registry": self.registry,
            "cache": self.cache,
            "mirror": str(self.mirror),
            "source": "any",
            "out": self.out,
        }
        return prepare("sample", **(arguments | changes))

    def load(self, **changes: Any) -> Dataset:
        """Prepare the dataset and load it."""
        self.prepare(**changes)
        return load(self.out / "manifest.json")

    def refused(self, **changes: Any) -> str:
        """Prepare the dataset, and return the one-line reason why that is refused."""
        line = user_error(self.prepare, **changes)
        assert not (self.out / "manifest.json").exists()
        return line


PICTURES = ("idx", "cifar_binary", "image_zip, two folders", "image_zip, one folder")


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    """Write `files` into `folder`, and return `folder`."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder
