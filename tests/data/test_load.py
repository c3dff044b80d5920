"""Datasets are loaded memory-mapped and read-only, and only if they match their manifest."""

import json
import subprocess
import sys

import numpy as np
import pytest

import make_datasets
from mistakes import user_error
from nodewise.data import check_arrays, load, prepare


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    root = tmp_path_factory.mktemp("prepared")
    prepare(
        "sample",
        registry=make_datasets.write_registry(root / "r.yaml", make_datasets.entry()),
        cache=root / "cache",
        mirror=str(make_datasets.write_mirror(root / "mirror")),
        source="official",
        out=root / "out",
        seed=1,
    )
    return root / "out"


@pytest.fixture
def manifest(prepared, tmp_path):
    for path in prepared.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    return tmp_path / "manifest.json"


def refused(manifest):
    return user_error(load, manifest)


def test_arrays_are_memory_mapped_and_read_only(manifest):
    data = load(manifest)
    for array in (*data.train, *data.test):
        assert isinstance(array, np.memmap)
        assert array.dtype == np.uint8
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_a_missing_manifest_or_array(manifest):
    assert "cannot be read" in refused(manifest.with_name("other.json"))
    manifest.with_name("test_1.npy").unlink()
    assert "test_1.npy" in refused(manifest)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"colour": "red"}, "colour"),
        ({"dataset": "../x"}, "dataset"),
        ({"dtype": "uint16"}, "train_0.npy"),
        ({"shape": [59, 28, 28, 1]}, "train_0.npy"),
        ({"file": "../train_0.npy"}, "train[0].file"),
    ],
)
def test_a_manifest_that_is_wrong_or_contradicts_its_arrays(manifest, change, told):
    content = json.loads(manifest.read_text())
    first = content["train"][0]
    (first if set(change) & set(first) else content).update(change)
    manifest.write_text(json.dumps(content))
    assert told in refused(manifest)


@pytest.mark.parametrize("keep", [0, 6, -1])
def test_a_file_that_is_no_whole_array(manifest, keep):
    path = manifest.with_name("test_0.npy")
    path.write_bytes(path.read_bytes()[:keep])
    assert "test_0.npy" in refused(manifest)


def test_bytes_that_changed_since_they_were_prepared_are_found(manifest):
    assert check_arrays(manifest) == load(manifest).manifest
    path = manifest.with_name("train_0.npy")
    content = bytearray(path.read_bytes())
    content[-500:] = bytes(byte ^ 1 for byte in content[-500:])
    path.write_bytes(content)
    line = user_error(check_arrays, manifest)
    assert line == (
        f"{path}: changed since it was prepared; prepare it again: "
        f"nodewise prepare sample --out {path.parent}"
    )


@pytest.mark.parametrize(
    "array",
    [np.zeros(20, np.int64), np.zeros((20, 1), np.uint8), np.array([{}] * 20, dtype=object)],
    ids=["type", "shape", "pickle"],
)
def test_an_array_of_another_kind(manifest, array):
    np.save(manifest.with_name("test_1.npy"), array, allow_pickle=True)
    assert "test_1.npy" in refused(manifest)


def test_importing_the_package_stays_light():
    code = (
        "import sys, nodewise.data; "
        "print(*{'tensorflow', 'keras', 'scipy', 'PIL', 'rich', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ""
