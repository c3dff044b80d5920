"""What the user can mend: one exception for it, and what the system says of files and disks."""

import errno


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
    """Say in one line what the system refused: a file that it names, or room on a disk.

    Anything else, such as a broken connection between workers, is no matter of files: None.
    """
    if isinstance(error, FileExistsError):
        return f"{error.filename}: is there already and is not a folder"
    if error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    no_temporary_folder = isinstance(
        error, FileNotFoundError
    )  # tempfile's; it names those it tried
    if no_temporary_folder or error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return error.strerror
    return None
