"""Write files atomically: a file is either complete or absent.

A file is written under a hidden name, `.NAME.TOKEN.tmp`, in the same folder and renamed when it is
complete. A writer that is killed leaves the hidden file behind. Nothing reads it, so it may be
removed.
"""

import errno
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_NAMELESS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, None)  # None: raised by NumPy


@contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """Yield a temporary path in the folder of `path`; rename it to `path` if the block succeeds.

    On an exception the temporary file is removed and `path` is left unchanged. If there are several
    writers at the same time, the last one to finish replaces the whole file.

    Raises:
        OSError: the folder or the file cannot be written; the error names `path`.
    """
    with _temporary(path) as temporary:
        yield temporary
        temporary.replace(path)


def check_writable(path: Path) -> None:
    """Check that `path` can be written before hours of work; create its folder.

    Raises:
        OSError: it cannot be written; the error names `path`.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with _temporary(path):
        pass


def write_text(path: Path, text: str) -> None:
    """Write `text` to `path` atomically, as UTF-8."""
    with atomic(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: Path, value: object) -> None:
    """Write `value` to `path` atomically, as indented JSON."""
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file's bytes, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """Create a new file in the folder of `target` and yield its path; remove it at the end.

    It stays if the block has renamed it.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary.touch(exist_ok=False)
        try:
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        # errors of a full disk name no file; users know the target, not the temporary file
        if error.errno in _NAMELESS or Path(str(error.filename)) == temporary:
            text = os.strerror(error.errno) if error.errno else f"cannot be written ({error})"
            raise OSError(error.errno or errno.EIO, text, str(target)) from error
        raise


def project_path(file: Path) -> str:
    """Return a file's path relative to the project's folder, which is the current folder.

    Of a file outside the project only the name is returned, because other folders may contain the
    name of a person.
    """
    path, here = Path(os.path.abspath(file)), Path.cwd()  # noqa: PTH100 (links are kept as typed)
    return str(path.relative_to(here)) if path.is_relative_to(here) else path.name
