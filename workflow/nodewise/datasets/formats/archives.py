"""Reading zip and tar archives entry by entry, in memory, and refusing what no dataset needs.

Nothing is ever extracted to a disk. Refused are: names that would leave their folder, links and
devices, names that come twice, encrypted entries, and sizes that only a bomb has. The text of every
error names the entry.
"""

import gzip
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nodewise.datasets.facts import MAX_CONTENT_BYTES

MAX_RATIO = 100  # unpacked over packed; text and images stay far below
_SLACK = 2**16  # bytes that may be packed as densely as they like
_DAMAGED = (
    *(zipfile.BadZipFile, NotImplementedError),  # a later version of the format, or so it says
    *(tarfile.TarError, zlib.error, EOFError, OSError),
)

Read = Callable[[str], bytes]


class _Names:
    """The entries seen so far: names are safe and come once, sizes stay within bounds."""

    def __init__(self, max_entry_bytes: int) -> None:
        self._max_entry_bytes = max_entry_bytes
        self._seen: set[str] = set()
        self._total = 0

    def add(self, name: str, size: int) -> None:
        """Raise a ValueError if an entry `name` of `size` unpacked bytes must not be there."""
        parts = name.rstrip("/").split("/")
        if not name.isprintable() or "\\" in name or ":" in name or {"", ".", ".."} & set(parts):
            raise ValueError(f"{name!r:.120}: not a plain name below the archive")
        plain = "/".join(parts)
        if plain in self._seen:
            raise ValueError(f"{name}: is there twice")
        self._seen.add(plain)
        if size > self._max_entry_bytes:
            raise ValueError(f"{name}: {size:,} bytes, expected at most {self._max_entry_bytes:,}")
        self._total += size
        if self._total > MAX_CONTENT_BYTES:
            raise ValueError(f"{name}: up to here more than {MAX_CONTENT_BYTES:,} bytes")


@contextmanager
def open_zip(path: Path, max_entry_bytes: int) -> Iterator[tuple[list[str], Read]]:
    """Check every entry of a zip file; yield the names of its files, and a function to read one.

    Raises:
        ValueError: the archive or an entry is damaged or refused.
    """
    try:
        archive = zipfile.ZipFile(path)
    except _DAMAGED as error:
        raise ValueError(f"{path.name}: not a sound zip file ({error})") from error
    with archive:
        names = _Names(max_entry_bytes)
        for entry in archive.infolist():
            names.add(entry.filename, entry.file_size)
            _refuse_unusual(entry)

        def read(name: str) -> bytes:
            try:
                return archive.read(name)
            except _DAMAGED as error:
                raise ValueError(f"{name}: damaged ({error})") from error

        yield [entry.filename for entry in archive.infolist() if not entry.is_dir()], read


def _refuse_unusual(entry: zipfile.ZipInfo) -> None:
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise ValueError(f"{entry.filename}: is a link or a device")
    if entry.flag_bits & 1:
        raise ValueError(f"{entry.filename}: is encrypted")
    if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{entry.filename}: is packed in another way than stored or deflated")
    if entry.file_size > _SLACK + MAX_RATIO * entry.compress_size:
        raise ValueError(
            f"{entry.filename}: unpacks from {entry.compress_size:,} to {entry.file_size:,} bytes"
        )


class _Bounded(gzip.GzipFile):
    """A gzip file that ends in an error when it has given more than `limit` bytes."""

    def __init__(self, path: Path, limit: int) -> None:
        super().__init__(path, "rb")
        self._left = limit

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        self._left -= len(data)
        if self._left < 0:
            raise tarfile.TarError("unpacks to more than any dataset needs")
        return data


def tar_gz_files(path: Path, max_entry_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file in a .tar.gz archive, in its order.

    Raises:
        ValueError: the archive or an entry is damaged or refused.
    """
    limit = min(MAX_CONTENT_BYTES, _SLACK + MAX_RATIO * path.stat().st_size)
    names = _Names(max_entry_bytes)
    last = path.name
    try:
        with (
            _Bounded(path, limit) as unpacked,
            # as a stream: headers are read in order, and none is believed beyond the limit
            tarfile.open(fileobj=unpacked, mode="r|") as archive,
        ):
            for entry in archive:
                last = entry.name
                names.add(entry.name, entry.size)
                if entry.isdir():
                    continue
                content = archive.extractfile(entry) if entry.isreg() else None
                if content is None:
                    raise ValueError(f"{entry.name}: is a link or a device")
                yield entry.name, content.read()
    except _DAMAGED as error:
        raise ValueError(f"{last}: damaged here or behind it ({error})") from error
