"""Write files so that they are either whole or absent.

A file is written under the hidden name `.NAME.TOKEN.tmp` beside its place and renamed when it is
whole. A writer that is killed leaves that file behind; nothing reads it, and it may be removed.
"""

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_SUFFIX = ".tmp"
_NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, None)  # None: NumPy's


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it onto `path` if the block succeeds.

    On an exception the temporary file is removed and `path` stays as it was. Of several writers at
    once the last to finish wins, with its whole file.

    Raises:
        OSError: the folder or the file cannot be written; it names `path`.
    """
    with _temporary(path) as temporary:
        yield temporary
        temporary.replace(path)


def check_writable(path: Path) -> None:
    """Find out now, not after hours of work, whether `path` can be written; make its folder.

    Raises:
        OSError: it cannot; it names `path`.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with _temporary(path):
        pass


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` in one atomic step (UTF-8)."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Write `value` as indented JSON in one atomic step."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """Make a new file beside `target` and yield its path; remove it unless it was renamed."""
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_SUFFIX}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        # a full disk names no file, and users know the target, not the temporary file
        if error.errno in _NAMELESS or Path(str(error.filename)) == temporary:
            text = os.strerror(error.errno) if error.errno else f"cannot be written ({error})"
            raise OSError(error.errno or errno.EIO, text, str(target)) from error
        raise


def project_path(file: Path) -> str:
    """Return a file's path within the project, the current folder; of one outside only the name.

    Folders elsewhere may name a person.
    """
    path, here = Path(os.path.abspath(file)), Path.cwd()  # noqa: PTH100 (links are kept as typed)
    return str(path.relative_to(here)) if path.is_relative_to(here) else path.name
