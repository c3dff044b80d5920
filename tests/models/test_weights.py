"""Pretrained weights are right, or random with a warning; damaged files are never used."""

import hashlib
import json
import logging
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from nodewise.core.errors import UserError
from nodewise.models.registry import registry as model_registry
from nodewise.models.weights import Entry, Manifest, find, prepare, read_weights

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
            "content_md5": hashlib.md5(CONTENT, usedforsecurity=False).hexdigest(),
            "urls": ["http://127.0.0.1:9/sample.h5"],
        }
        | changes,
    }


def run(tmp_path, *, mirror=None, source="any", **changes):
    registry = tmp_path / "weights.yaml"
    registry.write_text(yaml.safe_dump({"sample": entry(**changes)}))
    return prepare(
        "sample", registry=registry, cache=tmp_path / "cache", mirror=mirror and str(mirror),
        source=source, out=tmp_path / "out",
    )  # fmt: skip


def refusal(tmp_path, **arguments):
    with pytest.raises(UserError) as caught:
        run(tmp_path, **arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.fixture
def mirror(tmp_path):
    (tmp_path / "mirror" / "sample").mkdir(parents=True)
    (tmp_path / "mirror" / "sample" / FILE).write_bytes(CONTENT)
    return tmp_path / "mirror"


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_a_file_of_a_mirror_is_checked_cached_and_described(tmp_path, mirror, algorithm):
    digests = {
        "content_md5": None,
        f"content_{algorithm}": hashlib.new(algorithm, CONTENT).hexdigest(),
    }
    manifest = run(tmp_path, mirror=mirror, source="official", **digests)
    assert (manifest.origin, manifest.reason) == ("mirror", None)
    assert manifest.sha256 == hashlib.sha256(CONTENT).hexdigest()
    told = read_weights(tmp_path / "out" / "manifest.json")
    assert told.file == tmp_path / "out" / FILE
    assert told.file.read_bytes() == CONTENT
    assert told.source.model_dump() == {
        "name": "sample",
        "origin": "mirror",
        "sha256": manifest.sha256,
    }
    (mirror / "sample" / FILE).unlink()
    assert run(tmp_path, mirror=mirror, **digests) == manifest  # Now the file comes from the cache.


def test_weights_that_cannot_be_had_are_random_and_a_warning_says_so(tmp_path, caplog):
    caplog.set_level(logging.WARNING)
    manifest = run(tmp_path, mirror=tmp_path / "nowhere")
    assert (manifest.origin, manifest.file, manifest.sha256) == ("random", None, None)
    assert "127.0.0.1:9" in manifest.reason
    assert "nowhere" in manifest.reason
    *_, warning = caplog.messages  # Before it come warnings about each source that was tried.
    assert warning.startswith("sample: random weights in place of pretrained ones: sample.h5")
    assert "\n" not in warning
    told = read_weights(tmp_path / "out" / "manifest.json")
    assert told.file is None
    assert told.source.model_dump() == {"name": "sample", "origin": "random", "sha256": None}


def test_official_forbids_random_in_place_of_pretrained(tmp_path, mirror):
    run(tmp_path, mirror=mirror)
    (tmp_path / "cache" / "sample" / FILE).unlink()
    line = refusal(tmp_path, source="official")
    assert "forbids random in place of pretrained" in line
    assert "NODEWISE_DATASETS=DIR" in line
    # The result of an earlier run must not be taken for the result of this one.
    assert not (tmp_path / "out" / "manifest.json").exists()
    assert not (tmp_path / "out" / FILE).exists()


def test_weights_that_are_gone_leave_no_file_of_before(tmp_path, mirror):
    run(tmp_path, mirror=mirror)
    (tmp_path / "cache" / "sample" / FILE).unlink()
    assert run(tmp_path).origin == "random"
    assert not (tmp_path / "out" / FILE).exists()


DAMAGED = {
    "flipped": CONTENT[:100] + b"?" + CONTENT[101:],
    "cut": CONTENT[:-1],
    "longer": CONTENT + b"?",
    "empty": b"",
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_of_the_cache_is_set_aside_and_fetched_again(
    tmp_path, mirror, damage, caplog
):
    cached = tmp_path / "cache" / "sample" / FILE
    run(tmp_path, mirror=mirror)
    cached.write_bytes(DAMAGED[damage])
    assert run(tmp_path, mirror=mirror).origin == "mirror"
    assert cached.read_bytes() == CONTENT
    assert cached.with_name(f"{FILE}.bad").read_bytes() == DAMAGED[damage]
    assert f"set aside as {FILE}.bad" in caplog.text


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_file_is_never_used_nor_passed_over_in_silence(tmp_path, mirror, damage):
    (mirror / "sample" / FILE).write_bytes(DAMAGED[damage])
    line = refusal(tmp_path, mirror=mirror)
    assert str(mirror / "sample" / FILE) in line
    assert "expected" in line
    assert {path.name for path in (tmp_path / "cache" / "sample").iterdir()} == {".lock"}
    assert not (tmp_path / "out" / "manifest.json").exists()


def test_a_file_set_aside_is_not_forgotten(tmp_path, mirror):
    cached = tmp_path / "cache" / "sample" / FILE
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"?")
    assert f"{FILE}.bad (a damaged copy)" in refusal(tmp_path)
    assert f"{FILE}.bad (a damaged copy)" in refusal(tmp_path)
    assert run(tmp_path, mirror=mirror).origin == "mirror"


def test_a_prepared_file_that_changed_is_refused(tmp_path, mirror):
    run(tmp_path, mirror=mirror)
    manifest = tmp_path / "out" / "manifest.json"
    (tmp_path / "out" / FILE).write_bytes(DAMAGED["flipped"])
    with pytest.raises(UserError, match="not what its manifest says; prepare the weights again"):
        read_weights(manifest)
    (tmp_path / "out" / FILE).unlink()
    with pytest.raises(UserError, match=f"{FILE}: cannot be read"):
        read_weights(manifest)
    manifest.write_text("{}")
    with pytest.raises(UserError, match=r"manifest\.json: .*prepare the weights again"):
        read_weights(manifest)


@given(
    st.sampled_from(["official", "mirror", "random"]), st.booleans(), st.booleans(), st.booleans()
)
def test_a_manifest_tells_one_story(origin, file, sha256, reason):
    told = {
        "name": "sample",
        "title": "Sample",
        "origin": origin,
        "file": FILE if file else None,
        "sha256": "0" * 64 if sha256 else None,
        "reason": "no network" if reason else None,
        "licence": "MIT",
        "licence_url": "https://example.org/",
    }
    sound = (file, sha256, reason) == (
        (False, False, True) if origin == "random" else (True, True, False)
    )
    try:
        Manifest.model_validate_json(json.dumps(told))
    except ValidationError:
        assert not sound
    else:
        assert sound


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"name": "../sample.h5"}, "file.name"),
        ({"name": ".hidden"}, "file.name"),
        ({"content_md5": "123"}, "file.content_md5"),
        ({"content_sha256": "0" * 64}, "file: give either content_sha256 or content_md5"),
        ({"content_md5": None}, "file: give either content_sha256 or content_md5"),
        ({"urls": ["ftp://example.org/sample.h5"]}, "file.urls[0]"),
        ({"urls": []}, "file.urls"),
        ({"content_bytes": 0}, "file.content_bytes"),
        ({"size": 3}, "file.size"),
    ],
)
def test_a_misfit_in_the_registry_is_named(tmp_path, changes, told):
    line = refusal(tmp_path, **changes)
    assert f"weights.yaml: sample.{told}" in line


def test_unknown_weights_and_unreadable_registries(tmp_path):
    registry = tmp_path / "weights.yaml"
    with pytest.raises(UserError, match="cannot be read"):
        find(registry, "sample")
    registry.write_text("a: [")
    with pytest.raises(UserError, match="cannot be read as YAML"):
        find(registry, "sample")
    registry.write_text(yaml.safe_dump({"sample": entry()}))
    with pytest.raises(UserError, match=r"'other' are no weights of .*; allowed: sample"):
        find(registry, "other")
    assert find(registry, "sample") == Entry.model_validate_json(json.dumps(entry()))


REGISTRY = Path("data/weights.yaml")


def test_every_model_finds_its_weights():
    wanted = {entry.weights for entry in model_registry().values()} - {None}
    assert wanted == set(yaml.safe_load(REGISTRY.read_text()))
    for name in wanted:
        assert all(url.startswith("https://") for url in find(REGISTRY, name).file.urls)


@pytest.mark.parametrize("name", ["densenet121", "resnet50"])
def test_addresses_and_digests_are_those_that_keras_has(name):
    file = find(REGISTRY, f"{name}_imagenet").file
    source = keras_source("densenet" if name == "densenet121" else "resnet")
    assert file.content_md5 in source
    folder, _, last = file.urls[0].rpartition("/")
    assert f"{folder}/" in source
    assert last == file.name


def keras_source(module):
    """Return the source code of a module of keras.applications, without importing TensorFlow."""
    keras = Path(find_spec("keras").origin).parent
    return (keras / "src" / "applications" / f"{module}.py").read_text()
