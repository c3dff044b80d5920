"""The registry has what is needed to verify each file and refuses entries that make no sense."""

from pathlib import Path

import pytest

import make_datasets
from mistakes import user_error
from nodewise.core.errors import UserError
from nodewise.data.registry import Entry, find, read_registry

REGISTRY = Path(__file__).parents[2] / "data" / "datasets.yaml"


def test_the_registry_of_the_project_is_valid():
    entries = read_registry(REGISTRY, Entry)
    names = {"mnist", "fashion_mnist", "cifar10", "natural_images", "movie_reviews"}
    assert set(entries) == names
    for name in ("mnist", "fashion_mnist"):
        entry = entries[name]
        assert (entry.train_examples, entry.test_examples) == (60_000, 10_000)
        assert entry.shape == (28, 28, 1)
        assert len(entry.classes) == 10
        assert all(len(file.urls) > 1 for file in files(entry))
    for release in (release for entry in entries.values() for release in entry.releases):
        assert all(bool(file.urls) == (release.note is None) for file in release.files_needed())
    digests = [file.content_sha256 for entry in entries.values() for file in files(entry)]
    assert len(set(digests)) == len(digests)
    assert all(entry.synthetic for entry in entries.values())


def files(entry):
    return [file for release in entry.releases for file in release.files_needed()]


def in_file(**change):
    """Return a change of the first file of an entry."""
    (release,) = make_datasets.entry()["releases"]
    first, *others = release["files"]
    return {"releases": [release | {"files": [first | change, *others]}]}


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"colour": "red"}, "colour"),
        ({"shape": [28, 28, 1], "dtype": "uint16"}, "images are uint8, tokens uint16"),
        ({"shape": [30_000, 30_000, 1]}, "bytes of examples"),
        ({"train_examples": "60"}, "train_examples"),
        ({"classes": ["a", "a"]}, "same name"),
        ({"releases": [{"format": "pickle"}]}, "'pickle'"),
        ({"releases": [{"format": "idx", "files": []}]}, "each role exactly once"),
        ({"releases": make_datasets.entry()["releases"] * 2}, "same name"),
        ({"title": "two\nlines"}, "title"),
        (in_file(name="../train.gz"), "name"),
        (in_file(name="test-labels.gz"), "same name"),
        (in_file(role="train_labels"), "each role exactly once"),
        (in_file(content_sha256="abc"), "content_sha256"),
        (in_file(content_bytes=0), "content_bytes"),
        (in_file(folder="../x"), "folder"),
        (in_file(urls=["ftp://example.org/a.gz"]), "urls"),
        (in_file(urls=["https://user@example.org/a.gz"]), "urls"),
    ],
)
def test_a_wrong_entry_is_one_clear_line(tmp_path, change, told):
    path = make_datasets.write_registry(tmp_path / "r.yaml", make_datasets.entry() | change)
    line = user_error(read_registry, path, Entry)
    assert told in line
    assert f"{path}: sample" in line


def test_an_unknown_dataset_is_answered_by_those_that_are_known():
    with pytest.raises(UserError, match=r"'\.\./mnist' is not in .* allowed: .*mnist"):
        find(REGISTRY, "../mnist", Entry)
