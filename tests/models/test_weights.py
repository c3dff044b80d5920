"""Pretrained weights are right, or random with a warning; damaged files are never used."""

import hashlib
import logging
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from mistakes import user_error
from nodewise.data.registry import find
from nodewise.models.registry import registry as model_registry
from nodewise.models.weights import Entry, prepare, read_weights

CONTENT = bytes(range(256)) * 40
FILE = "sample.h5"


def entry(**changes):
    return {
        "title": "Sample weights",
        "licence": "CC0-1.0",
        "licence_url": "https://creativecommons.org/publicdomain/zero/1.0/",
        "file": {
            "name": FILE,
            "content_bytes": len(CONTENT),
            "checksum": f"md5:{hashlib.md5(CONTENT, usedforsecurity=False).hexdigest()}",
            "urls": ["http://127.0.0.1:9/sample.h5"],
        }
        | changes,
    }


def run(tmp_path, *, mirror=None, source="any", **changes):
    registry = tmp_path / "weights.yaml"
    registry.write_text(yaml.safe_dump({"sample": entry(**changes)}))
    places = {"registry": registry, "cache": tmp_path / "cache", "out": tmp_path / "out"}
    return prepare("sample", mirror=mirror and str(mirror), source=source, **places)


@pytest.fixture
def mirror(tmp_path):
    (tmp_path / "mirror" / "sample").mkdir(parents=True)
    (tmp_path / "mirror" / "sample" / FILE).write_bytes(CONTENT)
    return tmp_path / "mirror"


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_file_of_a_mirror_is_checked_and_described(tmp_path, mirror, algorithm):
    checksum = f"{algorithm}:{hashlib.new(algorithm, CONTENT).hexdigest()}"
    manifest = run(tmp_path, mirror=mirror, source="official", checksum=checksum)
    assert (manifest.origin, manifest.reason) == ("mirror", None)
    told = read_weights(tmp_path / "out" / "manifest.json")
    assert told.file.read_bytes() == CONTENT
    assert (told.source.name, told.source.origin) == ("sample", "mirror")
    assert told.source.sha256 == hashlib.sha256(CONTENT).hexdigest()


def test_weights_that_cannot_be_had_are_random_and_a_warning_says_so(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    manifest = run(tmp_path, mirror=tmp_path / "nowhere")
    assert (manifest.origin, manifest.file, manifest.sha256) == ("random", None, None)
    assert "127.0.0.1:9" in manifest.reason
    assert "nowhere" in manifest.reason
    assert caplog.messages[-1].startswith("sample: random weights in place of pretrained ones: ")
    told = read_weights(tmp_path / "out" / "manifest.json")
    assert (told.file, told.source.origin, told.source.sha256) == (None, "random", None)


@pytest.mark.parametrize("source", ["any", "official"])
def test_weights_that_are_gone_leave_no_file_of_before(tmp_path, mirror, source):
    run(tmp_path, mirror=mirror)
    if source == "any":
        assert run(tmp_path).origin == "random"
    else:
        assert "NODEWISE_DATASETS=DIR" in user_error(run, tmp_path, source=source)
        assert not (tmp_path / "out" / "manifest.json").exists()
    assert not (tmp_path / "out" / FILE).exists()


def test_a_damaged_file_is_never_passed_over_in_silence(tmp_path, mirror):
    (mirror / "sample" / FILE).write_bytes(CONTENT[:-1])
    assert str(mirror / "sample" / FILE) in user_error(run, tmp_path, mirror=mirror)
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_prepared_file_that_changed_is_refused(tmp_path, mirror):
    run(tmp_path, mirror=mirror)
    manifest = tmp_path / "out" / "manifest.json"
    (tmp_path / "out" / FILE).write_bytes(CONTENT[1:])
    said = user_error(read_weights, manifest)
    assert "not what its manifest says; remove " in said and "/manifest.json" in said
    (tmp_path / "out" / FILE).unlink()
    with pytest.raises(FileNotFoundError):
        read_weights(manifest)
    manifest.write_text("{}")
    assert "; remove the file" in user_error(read_weights, manifest)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"checksum": "md5:123"}, "file.checksum"),
        ({"urls": []}, "file.urls"),
    ],
)
def test_a_misfit_in_the_registry_is_named(tmp_path, changes, told):
    assert f"weights.yaml: sample.{told}" in user_error(run, tmp_path, **changes)


REGISTRY = Path("data/weights.yaml")


def test_every_model_finds_its_weights():
    wanted = {entry.weights for entry in model_registry().values()} - {None}
    assert wanted == set(yaml.safe_load(REGISTRY.read_text()))
    for name in wanted:
        assert all(url.startswith("https://") for url in find(REGISTRY, name, Entry).file.urls)


@pytest.mark.parametrize("name", ["densenet121", "resnet50"])
def test_addresses_and_digests_are_those_that_keras_has(name):
    file = find(REGISTRY, f"{name}_imagenet", Entry).file
    module = "densenet" if name == "densenet121" else "resnet"
    # without importing TensorFlow
    keras = Path(find_spec("keras").origin).parent
    source = (keras / f"src/applications/{module}.py").read_text()
    assert file.checksum.removeprefix("md5:") in source
    folder, _, last = file.urls[0].rpartition("/")
    assert f"{folder}/" in source
    assert last == file.name
