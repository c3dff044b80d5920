"""Every release format gives the right examples in its own order, or a one-line error."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

import make_datasets as make
from make_datasets import Sample


@pytest.mark.parametrize("kind", make.PICTURES)
def test_the_same_files_give_identical_arrays(kind, tmp_path):
    sample = Sample(tmp_path, *make.made(kind))
    sample.prepare()
    sample.prepare(out=tmp_path / "again")
    written = sorted(path.name for path in sample.out.iterdir() if path.suffix)
    assert len(written) == 5
    for name in written:
        assert (sample.out / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


# -- the binary form of CIFAR-10


def test_cifar_binary_is_read_by_planes_and_in_order(tmp_path):
    data = Sample(tmp_path, *make.made("cifar_binary")).load()
    batches = make.binary_batches()
    first = batches["cifar-10-batches-bin/data_batch_1.bin"]
    height, width, _ = make.COLOUR_SHAPE
    assert data.train[1][0] == first[0]
    for row, column, channel in ((0, 0, 0), (0, 1, 0), (1, 0, 0), (7, 5, 2), (3, 2, 1)):
        at = 1 + channel * height * width + row * width + column
        assert data.train[0][0, row, column, channel] == first[at]
    fifth = batches["cifar-10-batches-bin/data_batch_5.bin"]
    assert data.train[1][8] == fifth[0]
    assert data.test[1].tolist() == list(
        batches["cifar-10-batches-bin/test_batch.bin"][:: 1 + height * width * 3]
    )
    assert data.train[0].shape == (10, *make.COLOUR_SHAPE)
    assert data.manifest.note is None


# -- pictures in a zip archive


def seen(x, y):
    """Return (part, label, number) of each picture of `make.colour`, decoded from its colour."""
    colours = np.asarray(x, np.float64).mean(axis=(1, 2)) / (200, 80, 40)
    found = np.rint(colours).astype(int)
    assert np.array_equal(found[:, 1], y)
    return [tuple(row) for row in found.tolist()]


def test_two_folders_are_training_and_test(tmp_path):
    data = Sample(tmp_path, *make.made("image_zip, two folders")).load()
    train, test = seen(data.train[0], data.train[1]), seen(data.test[0], data.test[1])
    assert sorted(train) == [(0, label, number) for label in range(3) for number in range(4)]
    assert sorted(test) == [(1, label, number) for label in range(3) for number in range(2)]
    assert train != sorted(train)  # The examples are shuffled, not sorted by class.
    assert data.manifest.note == "smaller"


def test_one_folder_is_split_by_the_seed_of_the_registry(tmp_path):
    entry, files = make.made("image_zip, one folder")
    data = Sample(tmp_path / "one", entry, files).load()
    train, test = seen(data.train[0], data.train[1]), seen(data.test[0], data.test[1])
    assert sorted(train + test) == [(0, label, number) for label in range(3) for number in range(5)]
    other = Sample(tmp_path / "other", entry | {"split_seed": 4}, files).load()
    assert seen(other.test[0], other.test[1]) != test
    assert other.manifest.sha256 != data.manifest.sha256


CAT = "all/cat/0002.jpg"


def test_a_grey_picture_gets_three_equal_colours(tmp_path):
    packed = BytesIO()
    Image.new("L", (6, 8), 100).save(packed, "JPEG")
    data = Sample(tmp_path, *photos({CAT: packed.getvalue()})).load()
    pictures = np.concatenate([data.train[0], data.test[0]])
    assert any((picture == 100).all() for picture in pictures)


# -- several releases of one dataset


def both():
    """Return an entry with an official and another release, and the files of each release."""
    binary = make.tarred(make.binary_batches())
    images = make.pictures(("all/train", "all/test"), (4, 2))
    drop = ["all/train/cat/0000.jpg", "all/train/dog/0000.jpg"]
    drop += ["all/test/cat/0000.jpg", "all/test/dog/0000.jpg"]
    packed = make.zipped({name: c for name, c in images.items() if name not in drop})
    entry = make.colour_entry(
        make.binary_release(binary), make.image_release(packed, "all/train", "all/test")
    )
    return entry, {"sample/binary.tar.gz": binary}, {"sample/images.zip": packed}


def test_the_best_release_that_is_there_is_taken(tmp_path):
    entry, official, other = both()
    assert Sample(tmp_path / "both", entry, official | other).prepare().note is None
    manifest = Sample(tmp_path / "other", entry, other).prepare()
    assert (manifest.note, manifest.origin) == ("smaller", "mirror")
    assert [file.name for file in manifest.files] == ["images.zip"]


def test_official_refuses_a_release_that_is_not(tmp_path):
    entry, _, other = both()
    line = Sample(tmp_path, entry, other).refused(source="official")
    assert "binary.tar.gz is not available" in line
    assert "images.zip" not in line


def test_official_without_any_official_release(tmp_path):
    line = Sample(tmp_path, *make.made("image_zip, one folder")).refused(source="official")
    assert "no release of it is the official content (smaller)" in line


def test_a_damaged_release_is_passed_over_for_a_sound_one_only(tmp_path, caplog):
    entry, official, other = both()
    bad = {name: content[:-9] for name, content in official.items()}
    assert Sample(tmp_path / "passed", entry, bad | other).prepare().note == "smaller"
    assert "another digest" in caplog.text
    line = Sample(tmp_path / "bad", entry | {"synthetic": True}, bad).refused()
    assert "fix or remove the bad file" in line
    assert "images.zip is not available" in line


# -- files that do not fit the registry


def fewer_batches():
    batches = make.binary_batches()
    del batches["cifar-10-batches-bin/data_batch_3.bin"]
    packed = make.tarred(batches)
    return make.colour_entry(make.binary_release(packed)), {"sample/binary.tar.gz": packed}


def changed(role, at, byte):
    """Return IDX files in which one byte is another; their checksums are right."""
    content = bytearray(make.contents()[role])
    content[at] = byte
    return make.idx(make.contents() | {role: bytes(content)})


def photos(change):
    """Return pictures in a zip archive with some of its files changed, or removed if None."""
    files = {n: c for n, c in (make.pictures(("all",), (5,)) | change).items() if c is not None}
    return images(make.zipped(files))


def images(packed, *folders):
    release = make.image_release(packed, *(folders or ["all"]))
    return make.colour_entry(release, train_examples=11), {"sample/images.zip": packed}


VOCABULARY = make.vocabulary()


@pytest.mark.parametrize(
    ("made", "told"),
    [
        (lambda: changed("train_images", 3, 1), "train-images.gz: is not an array of (60, 28,"),
        (lambda: changed("test_labels", 3, 3), "test-labels.gz: is not an array of (20,)"),
        (lambda: changed("train_labels", 8, 10), "y_train: label 10 "),
        (fewer_batches, "sample: cannot reshape"),
        (lambda: photos({CAT: make.jpeg((1, 2, 3), (8, 7, 3))}), f"{CAT}: 8×7 pixels"),
        (lambda: photos({CAT: b"<html>"}), "cannot identify image file"),
        (lambda: photos({CAT: None}), "3 examples, expected 4"),
        (lambda: images(b"<html>"), "File is not a zip file"),
        (lambda: images(b"<html>", "a", "b", "c"), "folders"),
        (lambda: images(b"<html>", "../a"), "folders"),
        (lambda: make.review_sample({"reviews/neg/cv001.txt": b"\xe9"}, VOCABULARY), "byte 0xe9"),
        (lambda: make.review_sample({}, VOCABULARY[:-2]), "vocab.txt: 9 entries"),
    ],
)
def test_what_does_not_fit_the_registry_is_one_line(tmp_path, made, told):
    assert told in Sample(tmp_path, *made()).refused()
