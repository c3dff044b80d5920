"""Replace a generated folder as a whole: write a new one next to it, then swap them."""

import errno
import fcntl
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from nodewise.core.errors import UserError

_MARK = ".nodewise"  # file in each generated folder; other folders are never replaced


@contextmanager
def replaced(folder: Path) -> Iterator[Path]:
    """Yield an empty folder next to `folder`; replace `folder` by it if the block succeeds.

    The new folder has a hidden name, `.NAME.TOKEN`, until then. A run that is killed leaves it
    behind. Nothing reads it, so it may be removed. Of two runs at the same time, the last one to
    finish replaces the folder.

    Raises:
        UserError: `folder` contains files that nodewise did not generate, or is the current folder.
        OSError: the folder cannot be written; the error names a path in `folder`.
    """
    if not folder.name:
        raise UserError(f"{folder}: cannot be replaced as a whole; name a folder inside it")
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(folder))
    if folder.is_dir() and any(folder.iterdir()) and not (folder / _MARK).is_file():
        raise UserError(f"{folder}: holds files that nodewise did not write; name another folder")
    new = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        new.mkdir(parents=True)
        (new / _MARK).touch()
        yield new
        old = new.with_name(f"{new.name}.old")
        parent = os.open(folder.parent, os.O_RDONLY)
        try:
            fcntl.flock(parent, fcntl.LOCK_EX)  # another run may do the same
            if folder.exists():
                folder.rename(old)
            new.rename(folder)
        finally:
            os.close(parent)
        shutil.rmtree(old, ignore_errors=True)
    except OSError as error:
        # errors of a full disk name no file, and those of a copy name the source first
        where = str(error.filename2 or error.filename or f"{folder}/")
        named = where.replace(str(new), str(folder))
        raise OSError(error.errno, error.strerror, named) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)


def write_files(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files into `folder`; `files` has their contents by their paths relative to it.

    Raises:
        ValueError: a path leaves the folder.
    """
    for name, content in files.items():
        if not (folder / name).resolve().is_relative_to(folder.resolve()):
            raise ValueError(f"{name!r} is not inside the folder")
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        data = content.encode("utf-8") if isinstance(content, str) else content
        (folder / name).write_bytes(data)
