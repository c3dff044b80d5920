"""Preparing a dataset takes the right bytes from the first source that has them, or fails."""

import hashlib

import numpy as np
import pytest

import make_datasets
from make_datasets import NAMES
from mistakes import user_error
from nodewise.data import load, prepare

ARRAYS = {"train_0.npy", "train_1.npy", "test_0.npy", "test_1.npy"}


class Place:
    """A registry, a mirror, a cache and an output folder in one temporary folder."""

    def __init__(self, root, told=None, **changes):
        self.root = root
        self.told = told or make_datasets.contents()
        self.entry = make_datasets.entry(self.told) | changes
        self.registry = make_datasets.write_registry(root / "registry.yaml", self.entry)
        self.cache = root / "cache"
        self.out = root / "out"
        self.mirror = make_datasets.write_mirror(root / "mirror", self.told)

    def prepare(self, **changes):
        arguments = {
            "registry": self.registry,
            "cache": self.cache,
            "mirror": str(self.mirror),
            "source": "any",
            "out": self.out,
            "seed": 1,
        }
        return prepare("sample", **(arguments | changes))

    def refused(self, **changes):
        """Prepare, and return the one-line reason why that is refused."""
        return user_error(self.prepare, **changes)

    def mirrored(self, role):
        return self.mirror / "sample" / NAMES[role]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def visible(folder):
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def bytes_of(folder):
    return {name: (folder / name).read_bytes() for name in visible(folder)}


def test_the_arrays_are_the_content_of_the_files(place):
    manifest = place.prepare()
    assert visible(place.out) == ARRAYS | {"manifest.json"}
    data = load(place.out / "manifest.json")
    assert data.manifest == manifest
    assert data.train[0].shape == (60, 28, 28, 1)
    assert data.train[0].tobytes() == place.told["train_images"][16:]
    assert data.train[1].tobytes() == place.told["train_labels"][8:]
    assert data.test[0].tobytes() == place.told["test_images"][16:]
    assert data.test[1].tobytes() == place.told["test_labels"][8:]
    assert manifest.origin == "mirror"
    assert manifest.seed is None
    assert manifest.title == "Sample images"
    digests = [hashlib.sha256(place.told[role]).hexdigest() for role in NAMES]
    assert [file.content_sha256 for file in manifest.files] == digests
    assert manifest.sha256 == digest_of(data)


def digest_of(data):
    """Return the digest of the arrays, computed here independently."""
    digest = hashlib.sha256()
    arrays = {"x_train": data.train[0], "y_train": data.train[1]}
    arrays |= {"x_test": data.test[0], "y_test": data.test[1]}
    for name, array in arrays.items():
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode() + array.tobytes())
    return digest.hexdigest()


def test_from_the_cache_comes_the_same_as_from_a_mirror(place):
    first = place.prepare()
    (place.cache).mkdir()
    (place.mirror / "sample").rename(place.cache / "sample")
    again = place.prepare(mirror=None, source="official", out=place.root / "again")
    assert (first.origin, again.origin) == ("mirror", "official")
    assert again.sha256 == first.sha256
    assert bytes_of(place.root / "again").keys() == bytes_of(place.out).keys()


def test_without_any_source_synthetic_data_is_drawn_and_says_so(place, caplog):
    manifest = place.prepare(mirror=None)
    assert manifest.origin == "generated"
    assert manifest.seed == 1
    assert manifest.files == ()
    assert "generating synthetic data" in caplog.text
    data = load(place.out / "manifest.json")
    assert data.test[0].shape == (20, 28, 28, 1)
    assert set(data.train[1].tolist()) == set(range(10))
    first = bytes_of(place.out)
    place.prepare(mirror=None)
    assert bytes_of(place.out) == first
    assert place.prepare(mirror=None, seed=2).sha256 != manifest.sha256


def test_synthetic_data_and_real_files_are_never_mixed(place):
    packed = place.mirrored("test_labels").read_bytes()
    place.mirrored("test_labels").unlink()
    manifest = place.prepare()
    assert (manifest.origin, manifest.files) == ("generated", ())
    make_datasets.write_files(place.mirror / "sample", {NAMES["test_labels"]: packed})
    assert place.prepare().origin == "mirror"  # as soon as it is there


def test_official_forbids_synthetic_data(place):
    place.mirrored("test_labels").unlink()
    line = place.refused(source="official")
    assert "test-labels.gz is not available" in line
    assert str(place.mirrored("test_labels")) in line
    assert "NODEWISE_DATASETS=DIR" in line
    assert not place.out.joinpath("manifest.json").exists()


def test_a_corrupt_file_is_never_replaced_by_synthetic_data(place):
    path = place.mirrored("train_labels")
    path.write_bytes(b"x")
    line = place.refused()
    assert str(path) in line
    assert "fix or remove" in line
    assert not place.out.joinpath("manifest.json").exists()


def test_a_dataset_without_synthetic_data(tmp_path):
    place = Place(tmp_path, synthetic=False)
    assert "NODEWISE_DATASETS" in place.refused(mirror=None)
    assert place.prepare().origin == "mirror"


@pytest.mark.parametrize(
    ("role", "at", "byte", "told"),
    [
        ("train_images", 3, 1, "train-images.gz: its header is not that of an array of (60, 28,"),
        ("test_labels", 3, 3, "test-labels.gz: its header is not that of an array of (20,)"),
        ("train_labels", 8, 10, "y_train: label 10 "),
    ],
)
def test_content_that_does_not_fit_the_registry(tmp_path, role, at, byte, told):
    content = bytearray(make_datasets.contents()[role])
    content[at] = byte
    # its checksum is right, and only its meaning is wrong
    place = Place(tmp_path, make_datasets.contents() | {role: bytes(content)})
    assert told in place.refused()
    assert not place.out.joinpath("manifest.json").exists()


def test_a_run_that_fails_while_writing_leaves_no_manifest(place, monkeypatch):
    place.prepare()
    saved = []

    def full_disk(file, array, allow_pickle):
        if saved:
            raise OSError(28, "No space left on device")
        saved.append(file)

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(OSError, match="No space left on device"):
        place.prepare()
    assert not place.out.joinpath("manifest.json").exists()
    assert not list(place.root.rglob(".*"))


def test_a_seed_that_cannot_be_one(place):
    assert "seed: -1; allowed: 0 and above" in place.refused(mirror=None, seed=-1)
