"""Errors that the user can fix, and one-line messages for errors of files and disks."""

import re
import signal
from pathlib import Path


def one_line(text: str) -> str:
    """Escape what a terminal does not print, such as newlines, and cut the middle of long paths."""
    printable = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in text)
    return re.sub(r"(\S{150})\S{100,}(\S{50})", r"\1…\2", printable)


class UserError(Exception):
    """A mistake that the user can fix. The message is one line: what, where, what is allowed.

    The command line prints the message without a traceback and exits with code 2.
    """

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


class RefusedError(UserError):
    """The settings of a cell cannot be met. Its record is `refused`, with the message as reason.

    Args:
        reason: why they cannot be met.
        command: shell command that a person can run to permit them; empty if there is none.
    """

    def __init__(self, reason: str, command: str = "") -> None:
        super().__init__(f"{reason}. To allow it, run: {command}" if command else reason)
        self.reason, self.command = one_line(reason), command


class Terminated(SystemExit):
    """SIGTERM or SIGHUP ended this process. The exit code is 128 + the signal's number."""

    @classmethod
    def by(cls, number: int, _: object) -> None:
        """Raise it, as the handler of a signal, which does nothing from then on."""
        signal.signal(number, lambda *_: None)  # not SIG_IGN, which started programs would inherit
        raise cls(128 + number)


def what_to_mend(error: OSError) -> str | None:
    """Return in one line what the operating system refused, and for which file or folder.

    Returns:
        The message; None for a lost connection between processes, which the user cannot fix.
    """
    if isinstance(error, ConnectionError):
        return None
    reason = error.strerror or str(error)
    if isinstance(error, FileExistsError) and Path(str(error.filename)).is_file():
        return f"{error.filename}: exists and is not a folder"
    return reason if error.filename is None else f"{error.filename}: {reason}"
