"""Archives are read in memory, entry by entry; a damaged entry is reported by name."""

import io
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

import make_datasets as make
from nodewise.data.formats.archive import open_zip, tar_gz_files


def zip_path(tmp_path, entries, method=zipfile.ZIP_DEFLATED):
    """Write a zip file with the given pairs of (name or ZipInfo, content), unchecked."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for entry, content in entries:
            archive.writestr(entry, content)
    return path


def tar_path(tmp_path, entries):
    """Write a .tar.gz file with the given pairs of (name or TarInfo, content)."""
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for entry, content in entries:
            member = entry if isinstance(entry, tarfile.TarInfo) else tarfile.TarInfo(entry)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def read_zip(path):
    with open_zip(path) as (names, read):
        return {name: read(name) for name in names}


def read_tar(path):
    return dict(tar_gz_files(path))


READERS = {zip_path: read_zip, tar_path: read_tar}


@pytest.fixture(params=READERS, ids=["zip", "tar"])
def kind(request):
    return request.param, READERS[request.param]


def test_files_are_read_and_folders_passed_over(tmp_path, kind):
    write, read = kind
    entries = [("a/b.txt", b"one"), ("a/ü.txt", b""), ("c", b"x" * 1000)]
    assert read(write(tmp_path, entries)) == dict(entries)


@pytest.mark.parametrize("name", ["../x", "a/../../x"])
def test_a_tar_entry_that_leaves_its_folder_is_refused(tmp_path, name):
    with pytest.raises(ValueError, match="outside the destination"):
        read_tar(tar_path(tmp_path, [("good", b""), (name, b"x")]))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_that_leave_a_tar_file_and_devices_are_refused(tmp_path, kind):
    entry = tarfile.TarInfo("link")
    entry.type, entry.linkname = kind, "/etc/passwd"
    with pytest.raises(ValueError, match=r"^link: "):
        read_tar(tar_path(tmp_path, [(entry, b"")]))


def test_a_zip_entry_that_holds_more_than_it_says(tmp_path):
    path = zip_path(tmp_path, [("a", b"x" * 900)], zipfile.ZIP_STORED)
    content = path.read_bytes()
    told = (900).to_bytes(4, "little")
    path.write_bytes(content.replace(told, (10).to_bytes(4, "little")))
    with pytest.raises(ValueError, match=r"^a: damaged"):
        read_zip(path)


def test_an_encrypted_entry_is_named(tmp_path):
    path = zip_path(tmp_path, [("a", b"x" * 50)])
    content = bytearray(path.read_bytes())
    for start in (b"PK\1\2", b"PK\3\4"):
        content[content.index(start) + (8 if start == b"PK\1\2" else 6)] |= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^a: damaged .*encrypted"):
        read_zip(path)


@pytest.mark.parametrize("name", ["a.zip", "a.tar.gz"])
@pytest.mark.parametrize(
    "content", [b"", b"<html>", b"PK\3\4" + bytes(30), b"\x1f\x8b" + bytes(30)]
)
def test_what_is_no_archive(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=name):
        (read_zip if name == "a.zip" else read_tar)(path)


def test_an_archive_that_breaks_off(tmp_path, kind):
    write, read = kind
    path = write(tmp_path, [("a", bytes(range(250)) * 4), ("b", b"y")])
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(ValueError, match=r"damaged|not a sound zip"):
        read(path)


FILES = {"a/1": bytes(range(200)), "a/2": b"text " * 30, "b": b""}
ZIP, TAR = make.zipped(FILES), make.tarred(FILES)


def test_a_zip_of_a_later_version_is_a_value_error(tmp_path):
    content = bytearray(ZIP)
    content[ZIP.rindex(b"PK\x01\x02") + 6] = 64  # version 6.4 is needed to extract it
    (tmp_path / "later.zip").write_bytes(content)
    with pytest.raises(ValueError, match=r"version 6\.4"):
        read_zip(tmp_path / "later.zip")


@given(st.data())
def test_any_damage_gives_the_files_or_a_value_error(tmp_path_factory, data):
    good, read = data.draw(st.sampled_from([(ZIP, read_zip), (TAR, read_tar)]))
    content = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content)
    try:
        found = read(path)
    except ValueError:
        return
    assert all(isinstance(value, bytes) for value in found.values())
