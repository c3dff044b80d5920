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
    for array in (data.x_train, data.y_train, data.x_test, data.y_test):
        assert isinstance(array, np.memmap)
        assert array.dtype == np.uint8
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0


def test_a_missing_manifest_or_array(manifest):
    assert "cannot be read" in refused(manifest.with_name("other.json"))
    manifest.with_name("y_test.npy").unlink()
    assert "y_test.npy" in refused(manifest)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null"])
def test_a_manifest_that_is_none(manifest, text):
    manifest.write_text(text)
    assert str(manifest) in refused(manifest)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"origin": "official"}, "origin"),
        ({"origin": "generated"}, "origin"),
        ({"origin": "own"}, "unknown key"),
        ({"sha256": "abc"}, "sha256"),
        ({"dtype": "uint16"}, "x_train.npy"),
        ({"dtype": "object"}, "dtype"),
        ({"seed": 3}, "seed"),
        ({"files": []}, "files"),
        ({"colour": "red"}, "colour"),
        ({"train_examples": 59}, "x_train.npy"),
        ({"shape": [28, 28, 3]}, "x_train.npy"),
        ({"dataset": "../x"}, "dataset"),
    ],
)
def test_a_manifest_that_contradicts_itself_or_its_arrays(manifest, change, told):
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | change))
    assert told in refused(manifest)


def test_a_manifest_cannot_mix_generated_and_real_files(manifest):
    told = json.loads(manifest.read_text())
    told["files"][0]["origin"] = "generated"
    manifest.write_text(json.dumps(told))
    assert "files[0].origin" in refused(manifest)


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY", b"PK\3\4", b"no array at all"])
def test_a_file_that_is_no_array(manifest, content):
    manifest.with_name("x_test.npy").write_bytes(content)
    assert "x_test.npy" in refused(manifest)


def test_a_truncated_array(manifest):
    path = manifest.with_name("x_test.npy")
    path.write_bytes(path.read_bytes()[:-1])
    assert "x_test.npy" in refused(manifest)


def test_bytes_that_changed_since_they_were_prepared_are_found(manifest):
    assert check_arrays(manifest) == load(manifest).manifest
    path = manifest.with_name("x_train.npy")
    content = bytearray(path.read_bytes())
    content[-500:] = bytes(byte ^ 1 for byte in content[-500:])
    path.write_bytes(content)
    line = user_error(check_arrays, manifest)
    assert line == (
        f"{path}: changed since it was prepared; prepare it again: "
        f"nodewise prepare-dataset sample --out {path.parent}"
    )


def test_a_manifest_of_before_there_were_digests(manifest):
    told = json.loads(manifest.read_text())
    del told["arrays"]
    manifest.write_text(json.dumps(told))
    assert refused(manifest) == (
        f"{manifest}: arrays: required, but missing; prepare the dataset again"
    )


@pytest.mark.parametrize(
    "array",
    [np.zeros(20, np.int64), np.zeros((20, 1), np.uint8), np.array([{}] * 20, dtype=object)],
    ids=["type", "shape", "pickle"],
)
def test_an_array_of_another_kind(manifest, array):
    np.save(manifest.with_name("y_test.npy"), array, allow_pickle=True)
    assert "y_test.npy" in refused(manifest)


def test_importing_the_package_stays_light():
    code = (
        "import sys, nodewise.data; "
        "print(*{'tensorflow', 'keras', 'scipy', 'PIL', 'rich', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == ""
