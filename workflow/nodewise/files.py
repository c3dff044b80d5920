"""Files that are either whole or not there, and no trace of those that never became whole.

A file is written under a hidden name beside its place and renamed when it is whole. Its writer
holds a lock on it meanwhile; the kernel drops the lock with the writer, however that ends. A hidden
file that nobody has locked is therefore a leftover of a killed writer, on any machine that shares
the folder, and the next writer to the folder removes it. (A file without any name until it is whole
would leave nothing at all, but libraries want a name with the right suffix, a file that exists
cannot be replaced by such a one in one step, and not every file system has them.)
"""

import errno
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = ".nodewise-"
_NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, None)  # None: NumPy's


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`; rename it onto `path` if the block succeeds.

    The temporary name keeps the suffix of `path`, since libraries choose formats by it. On an
    exception the temporary file is removed and `path` stays as it was. Of several writers at once
    the last to finish wins, with its whole file.

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


def remove_leftovers(folder: Path) -> None:
    """Remove what killed writers left in `folder`; leave alone what is still being written."""
    for leftover in folder.glob(f"{_PREFIX}*"):
        try:
            with leftover.open("r+b") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                leftover.unlink()
        except OSError:  # its writer lives or has just finished, or it is another user's
            continue


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
    """Yield a new file beside `target`, locked until the block ends and then removed."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        remove_leftovers(target.parent)
        path, handle = _create(target)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)  # it has another name by now if all went well
            os.close(handle)
    except OSError as error:
        # a full disk names no file, and the temporary one is not worth telling of
        if error.errno in _NAMELESS or Path(str(error.filename)).name.startswith(_PREFIX):
            text = os.strerror(error.errno) if error.errno else f"cannot be written ({error})"
            raise OSError(error.errno or errno.EIO, text, str(target)) from error
        raise


def _create(target: Path) -> tuple[Path, int]:
    while True:
        path = target.with_name(f"{_PREFIX}{secrets.token_hex(8)}{target.suffix}")
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        with suppress(OSError):  # no locks on this file system: nothing is removed there either
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return path, handle
        os.close(handle)  # taken for a leftover in the moment before it was locked
