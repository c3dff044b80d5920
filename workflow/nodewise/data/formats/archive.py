"""Read zip and tar archives entry by entry in memory, without unpacking them to disk.

The digest of the archive has been checked before, so entries are only checked for damage. Error
messages name the entry.
"""

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_DAMAGED = (
    *(zipfile.BadZipFile, NotImplementedError, RuntimeError),  # other versions, encrypted entries
    *(tarfile.TarError, zlib.error, lzma.LZMAError, EOFError, OSError),
)

Read = Callable[[str], bytes]


@contextmanager
def open_zip(path: Path) -> Iterator[tuple[list[str], Read]]:
    """Open a zip archive; yield the names of its files and a function that reads one by its name.

    Raises:
        ValueError: the archive or an entry is damaged.
    """
    try:
        archive = zipfile.ZipFile(path)
    except _DAMAGED as error:
        raise ValueError(f"{path.name}: not a sound zip file ({error})") from error

    def read(name: str) -> bytes:
        try:
            return archive.read(name)
        except _DAMAGED as error:
            raise ValueError(f"{name}: damaged ({error})") from error

    with archive:
        yield [entry.filename for entry in archive.infolist() if not entry.is_dir()], read


def tar_gz_files(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file in a .tar.gz archive, in the order of the archive.

    Raises:
        ValueError: an entry is damaged, or its path leaves the archive's folder.
    """
    last = path.name
    try:
        with tarfile.open(path, "r:gz") as archive:
            for entry in archive:
                last = entry.name
                tarfile.data_filter(entry, ".")
                content = archive.extractfile(entry) if entry.isreg() else None
                if content is not None:
                    yield entry.name, content.read()
    except _DAMAGED as error:
        raise ValueError(f"{last}: damaged here or behind it ({error})") from error
