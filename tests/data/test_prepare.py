"""Preparing a dataset takes the right bytes from the first source that has them, or fails."""

import gzip
import hashlib
import json
import logging

import numpy as np
import pytest

import make_datasets
from make_datasets import NAMES
from mistakes import user_error
from nodewise.core.errors import UserError
from nodewise.data import load, prepare

ARRAYS = {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"}


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

    def cached(self, role):
        return self.cache / "sample" / NAMES[role]


@pytest.fixture
def place(tmp_path):
    return Place(tmp_path)


def visible(folder):
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def hidden(folder):
    return {path.name for path in folder.rglob(".*")} - {".lock"}


def bytes_of(folder):
    return {name: (folder / name).read_bytes() for name in visible(folder)}


def test_the_arrays_are_the_content_of_the_files(place):
    manifest = place.prepare()
    assert visible(place.out) == ARRAYS | {"manifest.json"}
    data = load(place.out / "manifest.json")
    assert data.manifest == manifest
    assert data.x_train.shape == (60, 28, 28, 1)
    assert data.x_train.tobytes() == place.told["train_images"][16:]
    assert data.y_train.tobytes() == place.told["train_labels"][8:]
    assert data.x_test.tobytes() == place.told["test_images"][16:]
    assert data.y_test.tobytes() == place.told["test_labels"][8:]
    assert manifest.origin == "mirror"
    assert manifest.seed is None
    assert manifest.title == "Sample images"
    digests = [hashlib.sha256(place.told[role]).hexdigest() for role in NAMES]
    assert [file.content_sha256 for file in manifest.files] == digests
    assert manifest.sha256 == digest_of(data)


def digest_of(data):
    """Return the digest of the arrays, computed here independently."""
    digest = hashlib.sha256()
    for name in ("x_train", "y_train", "x_test", "y_test"):
        array = getattr(data, name)
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode() + array.tobytes())
    return digest.hexdigest()


def test_from_the_cache_comes_the_same_as_from_the_source(place):
    place.prepare()
    first = bytes_of(place.out)
    place.prepare(mirror=None, source="official", out=place.root / "again")
    assert bytes_of(place.root / "again") == first
    place.prepare()
    assert bytes_of(place.out) == first


def test_other_packing_of_the_same_content_gives_the_same_manifest(place):
    place.prepare()
    for role in NAMES:
        place.mirrored(role).write_bytes(gzip.compress(place.told[role], 9, mtime=7))
    place.prepare(cache=place.root / "cache2", out=place.root / "out2")
    assert bytes_of(place.root / "out2") == bytes_of(place.out)


def test_a_file_laid_into_the_cache_by_hand_counts_as_mirrored(place):
    place.cache.mkdir()
    (place.mirror / "sample").rename(place.cache / "sample")
    assert place.prepare(mirror=None).origin == "mirror"


def test_without_any_source_a_stand_in_is_drawn_and_says_so(place, caplog):
    manifest = place.prepare(mirror=None)
    assert manifest.origin == "generated"
    assert manifest.seed == 1
    assert manifest.files == ()
    assert "stand-in" in manifest.title
    assert manifest.licence_url is None
    assert "generating synthetic data" in caplog.text
    data = load(place.out / "manifest.json")
    assert data.x_test.shape == (20, 28, 28, 1)
    assert set(data.y_train.tolist()) == set(range(10))
    first = bytes_of(place.out)
    place.prepare(mirror=None)
    assert bytes_of(place.out) == first
    assert place.prepare(mirror=None, seed=2).sha256 != manifest.sha256


def test_the_real_data_replaces_a_stand_in_as_soon_as_it_is_there(place):
    place.prepare(mirror=None)
    assert place.prepare().origin == "mirror"
    assert load(place.out / "manifest.json").x_train.tobytes() == place.told["train_images"][16:]


def test_stand_in_and_real_files_are_never_mixed(place):
    place.mirrored("test_labels").unlink()
    manifest = place.prepare()
    assert (manifest.origin, manifest.files) == ("generated", ())
    data = load(place.out / "manifest.json")
    assert data.x_train.tobytes() != place.told["train_images"][16:]


def test_official_forbids_the_stand_in_and_says_what_to_do(place):
    place.mirrored("test_labels").unlink()
    line = place.refused(source="official")
    assert "sample: test-labels.gz is not available" in line
    assert f"{place.mirrored('test_labels')} (no such file)" in line
    assert "http://127.0.0.1:9/test-labels.gz (cannot be reached" in line
    assert "set NODEWISE_DATASETS=DIR, or allow other data with source 'any'" in line
    assert not place.out.joinpath("manifest.json").exists()


def test_a_dataset_without_a_stand_in(tmp_path):
    place = Place(tmp_path, stand_in=None)
    assert "NODEWISE_DATASETS" in place.refused(mirror=None)
    assert "source 'any'" not in place.refused(mirror=None)
    assert "source 'any'" not in place.refused(mirror=None, source="official")
    assert place.prepare().origin == "mirror"


def test_a_stand_in_of_another_shape_is_not_pretended(tmp_path):
    place = Place(tmp_path, classes=["a", "b"])
    assert "stand_in: only for 10 classes of 28×28×1" in place.refused(mirror=None)


def test_one_line_is_logged_for_each_failed_source(place, caplog):
    place.mirrored("train_images").unlink()
    place.prepare()
    lines = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
    assert len(lines) == 3  # one each for the mirror, the official address and the stand-in
    assert all("\n" not in line for line in lines)
    assert lines[0] == f"sample: {place.mirrored('train_images')}: no such file"


def test_a_mirror_folder_that_is_not_there_falls_through(place, caplog):
    assert place.prepare(mirror=str(place.root / "nowhere")).origin == "generated"
    assert "nowhere" in caplog.text


def damage(kind, packed, content):
    """Return `packed` with a kind of damage, and a text that the error message must contain."""
    return {
        "checksum": (gzip.compress(content[:-1] + bytes([content[-1] ^ 1])), "SHA-256"),
        "cut": (packed[: len(packed) // 2], "breaks off"),
        "empty": (b"", "SHA-256"),
        "no gzip": (b"<html>Please sign in</html>", "not sound gzip"),
        "crc": (packed[:-8] + b"\0" * 8, "not sound gzip"),
        "deflate": (packed[:100] + bytes(b ^ 255 for b in packed[100:200]) + packed[200:], ""),
        "short": (gzip.compress(content[:100]), "100 bytes"),
        "long": (gzip.compress(content + b"\0"), "more than the expected"),
        "bomb": (gzip.compress(bytes(20_000_000)), "more than the expected"),
    }[kind]


DAMAGE = ["checksum", "cut", "empty", "no gzip", "crc", "deflate", "short", "long", "bomb"]


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_corrupt_file_in_a_mirror_is_told_and_left_alone(place, kind):
    path = place.mirrored("train_images")
    bad, told = damage(kind, path.read_bytes(), place.told["train_images"])
    path.write_bytes(bad)
    line = place.refused()
    assert str(path) in line
    assert told in line
    assert path.read_bytes() == bad
    assert not place.cached("train_images").exists()
    assert not hidden(place.root)
    assert not place.out.joinpath("manifest.json").exists()


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_corrupt_file_in_the_cache_is_set_aside_and_fetched_again(place, caplog, kind):
    place.prepare()
    first = bytes_of(place.out)
    path = place.cached("train_images")
    bad, told = damage(kind, path.read_bytes(), place.told["train_images"])
    path.write_bytes(bad)
    place.prepare()
    assert path.with_name(f"{path.name}.bad").read_bytes() == bad
    assert f"{path}: " in caplog.text
    assert told in caplog.text
    assert gzip.decompress(path.read_bytes()) == place.told["train_images"]
    assert bytes_of(place.out) == first


def test_a_corrupt_cache_is_never_replaced_by_a_stand_in(place):
    place.prepare()
    place.cached("train_labels").write_bytes(b"x")
    for _ in range(2):  # A second attempt must not succeed, either.
        line = place.refused(mirror=None)
        assert "train-labels.gz.bad (a damaged copy)" in line
        assert "fix or remove" in line
    place.cached("train_labels").with_name("train-labels.gz.bad").unlink()
    assert place.prepare(mirror=None).origin == "generated"


def with_content(tmp_path, role, content):
    """Return a place whose registry has the checksum of `content`: only its meaning is wrong."""
    return Place(tmp_path, make_datasets.contents() | {role: content})


@pytest.mark.parametrize(
    ("role", "at", "byte", "told"),
    [
        ("train_images", 3, 1, "train-images.gz: magic number 0x00000801, expected 0x00000803"),
        ("test_labels", 3, 3, "test-labels.gz: magic number 0x00000803, expected 0x00000801"),
        ("train_images", 7, 61, "train-images.gz: dimensions 61×28×28, expected 60×28×28"),
        ("train_labels", 8, 10, "y_train: label 10, expected 0 … 9"),
        ("test_labels", -1, 255, "y_test: label 255, expected 0 … 9"),
    ],
)
def test_content_that_does_not_fit_the_registry(tmp_path, role, at, byte, told):
    content = bytearray(make_datasets.contents()[role])
    content[at] = byte
    place = with_content(tmp_path, role, bytes(content))
    assert told in place.refused()
    assert not place.out.joinpath("manifest.json").exists()


def test_labels_that_are_too_few(tmp_path):
    place = with_content(tmp_path, "test_labels", make_datasets.contents()["test_labels"][:-1])
    assert "27 bytes, expected 28" in place.refused()


@pytest.mark.parametrize(
    ("mirror", "told"),
    [
        ("ftp://example.org/data", "ftp"),
        ("file:///data", "file"),
        ("s3://bucket/data", "s3"),
        ("https://", "no valid host"),
        ("https://example.org:port/data", "no valid host"),
        ("https://user:secret@/data", "no valid host"),
        ("https://user:secret@[::1/data", "no valid host"),
        ("https://example.org/data?token=secret", "query"),
        ("https://user:secret@example.org/data#part", "fragment"),
    ],
)
def test_a_mirror_that_cannot_be_one(place, mirror, told):
    line = place.refused(mirror=mirror)
    assert "mirror" in line
    assert told in line
    assert "secret" not in line
    assert not place.cache.exists()


def test_an_unknown_dataset_touches_nothing(place):
    with pytest.raises(UserError, match="not a dataset"):
        prepare(
            "../sample", registry=place.registry, cache=place.cache, mirror=None, source="any",
            out=place.out, seed=1,
        )  # fmt: skip
    assert not place.cache.exists()
    assert not place.out.exists()


def test_a_run_that_fails_while_writing_leaves_no_manifest(place, monkeypatch):
    place.prepare()
    saved = []

    def full_disk(file, array, allow_pickle):
        if saved:
            raise OSError(28, "No space left on device")
        saved.append(file)

    monkeypatch.setattr(np, "save", full_disk)
    assert f"{place.out / 'y_train.npy'}: No space left on device" in place.refused()
    assert not place.out.joinpath("manifest.json").exists()
    assert not hidden(place.root)


def test_a_seed_that_cannot_be_one(place):
    assert "seed: -1; allowed: 0 and above" in place.refused(mirror=None, seed=-1)


def test_an_output_that_cannot_be_a_folder(place):
    place.out.write_text("a file")
    assert "out" in place.refused()


def test_the_manifest_is_plain_json_without_paths(place):
    place.prepare()
    text = (place.out / "manifest.json").read_text()
    assert str(place.root) not in text
    assert set(json.loads(text)) == {
        "dataset", "title", "origin", "note", "seed", "sha256", "arrays", "files", "train_examples",
        "test_examples", "shape", "dtype", "classes", "licence", "licence_url",
    }  # fmt: skip
