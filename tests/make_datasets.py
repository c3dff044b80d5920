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

from nodewise.data.formats import cifar_binary, idx

TRAIN, TEST, CLASSES = 60, 20, 10
NAMES = {
    "train_images": "train-images.gz",
    "train_labels": "train-labels.gz",
    "test_images": "test-images.gz",
    "test_labels": "test-labels.gz",
}


def contents(seed: int = 0) -> dict[str, bytes]:
    """Return the contents of IDX files by role: random images of 28 × 28 and labels < CLASSES."""
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
    """Return the registry entry of a dataset with the contents `told`, by role.

    The official URLs of its files begin with `urls`. Nothing listens on the default one, so that
    the official source fails at once.
    """
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
                    {"role": role} | file(name, told[role], urls) for role, name in NAMES.items()
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


def write_mirror(folder: Path, told: dict[str, bytes] | None = None) -> Path:
    """Write the dataset's files, compressed, to `folder`/sample, and return `folder`."""
    (folder / "sample").mkdir(parents=True)
    for role, content in (told or contents()).items():
        (folder / "sample" / NAMES[role]).write_bytes(gzip.compress(content, 1, mtime=0))
    return folder


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


URL = ("http://127.0.0.1:9",)


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


def review_release(packed: bytes, vocabulary: bytes) -> dict[str, Any]:
    """Return a release of texts, with its vocabulary in another folder."""
    return {
        "format": "review_zip",
        "folder": "reviews",
        "file": file("reviews.zip", packed, URL),
        "vocabulary": file("vocab.txt", vocabulary, URL) | {"folder": "words"},
        "vocabulary_size": len(WORDS),
    }


def review_entry(packed: bytes, vocabulary: bytes, **changes: Any) -> dict[str, Any]:
    """Return the registry entry of a dataset of 9 + 3 texts."""
    told = {
        "synthetic": True,
        "classes": ["neg", "pos"],
        "shape": [REVIEW_TOKENS],
        "dtype": "uint16",
        "train_examples": 9,
        "test_examples": 3,
        "split_seed": 3,
        "releases": [review_release(packed, vocabulary)],
    }
    return entry() | told | changes


def vocabulary() -> bytes:
    """Return the vocabulary file of `WORDS`."""
    return "".join(f"{word}\n" for word in WORDS).encode()


def made(name: str) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return a complete dataset of one kind: its registry entry, and a mirror's files by path."""
    if name == "idx":
        packed = {f"sample/{NAMES[role]}": gzip.compress(c) for role, c in contents().items()}
        return entry(), packed
    if name == "cifar_binary":
        archive = tarred(binary_batches())
        return colour_entry(binary_release(archive)), {"sample/binary.tar.gz": archive}
    if name == "image_zip, two folders":
        archive = zipped(pictures(("all/train", "all/test"), (4, 2)))
        told = colour_entry(
            image_release(archive, "all/train", "all/test"), train_examples=12, test_examples=6
        )
        return told, {"sample/images.zip": archive}
    if name == "image_zip, one folder":
        archive = zipped(pictures(("all",), (5,)))
        told = colour_entry(image_release(archive, "all"), train_examples=11)
        return told, {"sample/images.zip": archive}
    archive, words = zipped(reviews(6)), vocabulary()
    return review_entry(archive, words), {"sample/reviews.zip": archive, "words/vocab.txt": words}


PICTURES = ("idx", "cifar_binary", "image_zip, two folders", "image_zip, one folder")


def write_files(folder: Path, files: dict[str, bytes]) -> Path:
    """Write `files` into `folder`, and return `folder`."""
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder
