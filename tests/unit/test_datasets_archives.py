"""Archives: read in memory, entry by entry; what no dataset needs is refused, and named."""

import gzip
import io
import stat
import tarfile
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

import make_datasets as make
from nodewise.datasets.formats import archives
from nodewise.datasets.formats.archives import open_zip, tar_gz_files

LIMIT = 1000


def zip_path(tmp_path, entries, method=zipfile.ZIP_DEFLATED):
    """Write a zip file of pairs (name or ZipInfo, content), just as they are told."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for entry, content in entries:
            archive.writestr(entry, content)
    return path


def tar_path(tmp_path, entries):
    """Write a .tar.gz file of pairs (name or TarInfo, content)."""
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for entry, content in entries:
            member = entry if isinstance(entry, tarfile.TarInfo) else tarfile.TarInfo(entry)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def read_zip(path):
    with open_zip(path, LIMIT) as (names, read):
        return {name: read(name) for name in names}


def read_tar(path):
    return dict(tar_gz_files(path, LIMIT))


READERS = {zip_path: read_zip, tar_path: read_tar}


@pytest.fixture(params=READERS, ids=["zip", "tar"])
def kind(request):
    return request.param, READERS[request.param]


def test_files_are_read_and_folders_passed_over(tmp_path, kind):
    write, read = kind
    entries = [("a/b.txt", b"one"), ("a/ü.txt", b""), ("c", b"x" * LIMIT)]
    assert read(write(tmp_path, entries)) == dict(entries)


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd", "../x", "a/../../x", "a/..", "..", ".", "a//b", "./a", "a\\..\\b", "C:x",
        "a\nb", "a\x1b[31m", "\x7f", "//x",
    ],
)  # fmt: skip
def test_names_that_could_leave_their_folder_or_mislead(tmp_path, kind, name):
    write, read = kind
    with pytest.raises(ValueError, match="not a plain name") as caught:
        read(write(tmp_path, [("good", b""), (name, b"x")]))
    assert "\n" not in str(caught.value)
    assert "\x1b" not in str(caught.value)


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("again", ["a", "a/"])
def test_a_name_that_comes_twice(tmp_path, kind, again):
    write, read = kind
    if write is tar_path and again.endswith("/"):
        again = tarfile.TarInfo("a")
        again.type = tarfile.DIRTYPE
    with pytest.raises(ValueError, match="is there twice"):
        read(write(tmp_path, [("a", b"x"), (again, b"")]))


def test_an_entry_that_is_too_large(tmp_path, kind):
    write, read = kind
    with pytest.raises(ValueError, match=r"^big: 1,001 bytes, expected at most 1,000$"):
        read(write(tmp_path, [("big", b"x" * (LIMIT + 1))]))


def test_all_entries_together_are_too_large(tmp_path, kind, monkeypatch):
    write, read = kind
    path = write(tmp_path, [(str(number), b"x" * LIMIT) for number in range(4)])
    monkeypatch.setattr(archives, "MAX_CONTENT_BYTES", 3 * LIMIT)
    with pytest.raises(ValueError, match=r"3: up to here more than|more than any dataset needs"):
        read(path)


@pytest.mark.parametrize("mode", [stat.S_IFLNK, stat.S_IFIFO, stat.S_IFCHR])
def test_links_and_devices_in_a_zip_file(tmp_path, mode):
    entry = zipfile.ZipInfo("link")
    entry.external_attr = (mode | 0o777) << 16
    with pytest.raises(ValueError, match=r"^link: is a link or a device$"):
        read_zip(zip_path(tmp_path, [(entry, b"/etc/passwd")]))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_in_a_tar_file(tmp_path, kind):
    entry = tarfile.TarInfo("link")
    entry.type, entry.linkname = kind, "/etc/passwd"
    with pytest.raises(ValueError, match=r"^link: is a link or a device$"):
        read_tar(tar_path(tmp_path, [(entry, b"")]))


def test_a_bomb_in_a_zip_file(tmp_path):
    path = zip_path(tmp_path, [("bomb", bytes(20_000_000))])
    with (
        pytest.raises(ValueError, match=r"^bomb: unpacks from 19,\d{3} to 20,000,000 bytes$"),
        open_zip(path, 2**30),
    ):
        pytest.fail("not reached")


def test_a_bomb_in_a_tar_file(tmp_path):
    path = tar_path(tmp_path, [("bomb", bytes(20_000_000))])
    with pytest.raises(ValueError, match=r"^bomb: damaged here .*more than any dataset needs"):
        dict(tar_gz_files(path, 2**30))


def test_a_tar_file_whose_header_is_a_bomb(tmp_path):
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 2**32
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(header.tobuf() + bytes(20_000_000)))
    with pytest.raises(ValueError, match="unpacks to more than any dataset needs"):
        read_tar(path)


def test_a_zip_entry_that_holds_more_than_it_says(tmp_path):
    path = zip_path(tmp_path, [("a", b"x" * 900)], zipfile.ZIP_STORED)
    content = path.read_bytes()
    told = (900).to_bytes(4, "little")
    path.write_bytes(content.replace(told, (10).to_bytes(4, "little")))
    with pytest.raises(ValueError, match=r"^a: damaged"):
        read_zip(path)


def test_encrypted_or_unusually_packed(tmp_path):
    path = zip_path(tmp_path, [("a", b"x" * 50)])
    content = bytearray(path.read_bytes())
    at = content.index(b"PK\1\2") + 8  # flags, in the directory at the end
    content[at] |= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"^a: is encrypted$"):
        read_zip(path)
    with pytest.raises(ValueError, match=r"^a: is packed in another way"):
        read_zip(zip_path(tmp_path, [("a", b"x" * 50)], zipfile.ZIP_LZMA))


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
    content[ZIP.rindex(b"PK\x01\x02") + 6] = 64  # needs version 6.4 to be unpacked
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
    assert all(isinstance(value, bytes) and len(value) <= LIMIT for value in found.values())
