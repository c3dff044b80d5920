"""Preparing a dataset takes the right bytes from the first source that has them, or fails."""

import hashlib

import numpy as np
import pytest

import make_datasets
import projects
from make_datasets import NAMES, Sample
from nodewise.data import load

ARRAYS = {"train_0.npy", "train_1.npy", "test_0.npy", "test_1.npy"}


@pytest.fixture
def sample(tmp_path):
    return Sample(tmp_path)


def mirrored(sample, role):
    return sample.mirror / "sample" / NAMES[role]


def visible(folder):
    return {path.name for path in folder.iterdir() if not path.name.startswith(".")}


def bytes_of(folder):
    return {name: (folder / name).read_bytes() for name in visible(folder)}


def test_the_arrays_are_the_content_of_the_files(sample):
    told = make_datasets.contents()
    manifest = sample.prepare()
    assert visible(sample.out) == ARRAYS | {"manifest.json"}
    data = load(sample.out / "manifest.json")
    assert data.manifest == manifest
    assert data.train[0].shape == (60, 28, 28, 1)
    assert data.train[0].tobytes() == told["train_images"][16:]
    assert data.train[1].tobytes() == told["train_labels"][8:]
    assert data.test[0].tobytes() == told["test_images"][16:]
    assert data.test[1].tobytes() == told["test_labels"][8:]
    assert manifest.origin == "mirror"
    assert manifest.seed is None
    assert manifest.title == "Sample images"
    digests = [hashlib.sha256(told[role]).hexdigest() for role in NAMES]
    assert [file.content_sha256 for file in manifest.files] == digests
    digest, names = hashlib.sha256(), ("x_train", "y_train", "x_test", "y_test")
    for name, array in zip(names, (*data.train, *data.test), strict=True):
        digest.update(f"{name} {array.dtype} {array.shape}\n".encode() + array.tobytes())
    assert manifest.sha256 == digest.hexdigest()


def test_the_environment_names_the_mirror(sample, tmp_path):
    (tmp_path / "data").mkdir()
    sample.registry.rename(tmp_path / "data/datasets.yaml")
    words = ("nodewise", "prepare", "sample", "--source", "official")
    projects.finish(projects.start(tmp_path, *words, NODEWISE_DATASETS="mirror"))
    manifest = load(tmp_path / "results/datasets/sample/manifest.json").manifest
    assert manifest.origin == "mirror"


def test_without_any_source_synthetic_data_is_drawn_and_says_so(sample, caplog):
    manifest = sample.prepare(mirror=None)
    assert manifest.origin == "generated"
    assert manifest.seed == 1
    assert manifest.files == ()
    assert "generating synthetic data" in caplog.text
    data = load(sample.out / "manifest.json")
    assert data.test[0].shape == (20, 28, 28, 1)
    assert set(data.train[1].tolist()) == set(range(10))
    first = bytes_of(sample.out)
    sample.prepare(mirror=None)
    assert bytes_of(sample.out) == first


def test_synthetic_data_and_real_files_are_never_mixed(sample):
    packed = mirrored(sample, "test_labels").read_bytes()
    mirrored(sample, "test_labels").unlink()
    manifest = sample.prepare()
    assert (manifest.origin, manifest.files) == ("generated", ())
    make_datasets.write_files(sample.mirror / "sample", {NAMES["test_labels"]: packed})
    assert sample.prepare().origin == "mirror"  # as soon as it is there


def test_official_forbids_synthetic_data(sample):
    mirrored(sample, "test_labels").unlink()
    line = sample.refused(source="official")
    assert "test-labels.gz is not available" in line
    assert str(mirrored(sample, "test_labels")) in line
    assert "NODEWISE_DATASETS=DIR" in line


def test_a_dataset_without_synthetic_data(tmp_path):
    entry, files = make_datasets.idx()
    sample = Sample(tmp_path, entry | {"synthetic": False}, files)
    assert "NODEWISE_DATASETS" in sample.refused(mirror=None)
    assert sample.prepare().origin == "mirror"


def test_a_run_that_fails_while_writing_leaves_no_manifest(sample, monkeypatch):
    sample.prepare()
    saved = []

    def full_disk(file, array, allow_pickle):
        if saved:
            raise OSError(28, "No space left on device")
        saved.append(file)

    monkeypatch.setattr(np, "save", full_disk)
    with pytest.raises(OSError, match="No space left on device"):
        sample.prepare()
    assert not sample.out.joinpath("manifest.json").exists()
    assert not list(sample.out.parent.rglob(".*"))
