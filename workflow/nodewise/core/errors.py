"""What the user can mend: one exception for it, and what the system says of files and disks."""

import errno
import os
import shutil

_NO_ROOM = 64 * 1024  # bytes: libraries write in larger pieces


def one_line(text: str) -> str:
    """Return `text` with what a terminal does not print, such as a newline, as an escape."""
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)


class UserError(Exception):
    """A mistake that the user can mend; its text is one line: what, where, what is allowed.

    The command line prints it without a traceback and exits with code 2.
    """

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


class RefusedError(UserError):
    """What a cell asks for cannot be done; its record is `refused`, with the text as its reason."""


def what_to_mend(error: OSError) -> str | None:
    """Say in one line what the system refused, and for which file or folder.

    A lost connection between processes is nothing that the user can mend: None.
    """
    if isinstance(error, ConnectionError):
        return None
    reason = error.strerror or str(error)
    if isinstance(error, FileExistsError) and error.filename is not None:
        return f"{error.filename}: exists and is not a folder"
    if error.filename is not None:
        return f"{error.filename}: {reason}"
    return f"{_full_disk()}: {reason}" if error.errno in {errno.ENOSPC, errno.EDQUOT} else reason


def _full_disk() -> str:
    """Return what takes no more bytes, of all that is written without naming it in an error."""
    # not tempfile.gettempdir(): it raises where no folder can be written
    folders = (os.environ.get("TMPDIR", "/tmp"), ".", "/dev/shm")  # noqa: S108
    return next((name for name in folders if _is_full(name)), "standard output")


def _is_full(folder: str) -> bool:
    try:
        return shutil.disk_usage(folder).free < _NO_ROOM
    except OSError:
        return False
