"""Datasets are loaded memory-mapped and read-only, and only if they match their manifest."""

import json

import numpy as np
import pytest

import make_datasets
import projects
from mistakes import user_error
from nodewise.data import load


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    sample = make_datasets.Sample(tmp_path_factory.mktemp("prepared"))
    sample.prepare(source="official")
    return sample.out


@pytest.fixture
def manifest(prepared, tmp_path):
    for path in prepared.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path / "manifest.json"


def test_arrays_are_memory_mapped_and_read_only(manifest):
    data = load(manifest)
    for array in (*data.train, *data.test):
        assert isinstance(array, np.memmap)
        assert array.dtype == np.uint8
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def changed(**change):
    """Return what changes a manifest, or the entry of its first array."""

    def damage(manifest):
        content = json.loads(manifest.read_text())
        first = content["train"][0]
        (first if change.keys() <= first.keys() else content).update(change)
        manifest.write_text(json.dumps(content))

    return damage


def stored(array):
    return lambda manifest: np.save(manifest.with_name("test_1.npy"), array, allow_pickle=True)


def cut(at):
    def damage(manifest):
        path = manifest.with_name("test_0.npy")
        path.write_bytes(path.read_bytes()[:at])

    return damage


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda manifest: manifest.unlink(), "manifest.json: cannot be read"),
        (lambda manifest: manifest.write_text("{"), "manifest.json: "),
        (lambda manifest: manifest.with_name("test_1.npy").unlink(), "test_1.npy"),
        (changed(colour="red"), "colour"),
        (changed(dataset="../x"), "dataset"),
        (changed(dtype="uint16"), "train_0.npy"),
        (changed(shape=[59, 28, 28, 1]), "train_0.npy"),
        (changed(file="../train_0.npy"), "train[0].file"),
        *((cut(at), "test_0.npy") for at in (0, 6, -1)),
        (stored(np.zeros(20, np.int64)), "test_1.npy"),
        (stored(np.zeros((20, 1), np.uint8)), "test_1.npy"),
        (stored(np.array([{}] * 20, dtype=object)), "test_1.npy"),
    ],
)
def test_a_manifest_and_arrays_that_do_not_fit_each_other(manifest, damage, told):
    damage(manifest)
    assert told in user_error(load, manifest)


def test_importing_the_package_stays_light():
    code = (
        "import sys, nodewise.data; "
        "print(*{'tensorflow', 'keras', 'scipy', 'PIL', 'rich', 'pandas'} & set(sys.modules))"
    )
    assert projects.python("-c", code) == "\n"
