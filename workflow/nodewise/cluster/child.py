"""Fork child processes, which outlive this process or end with it."""

import ctypes
import errno
import os
import signal
import traceback
from collections.abc import Callable

_PR_SET_PDEATHSIG = 1  # of linux/prctl.h


def error_in_child(work: Callable[[], object]) -> int:
    """Call `work` in a short-lived child process; return its errno, or 0 if it succeeded."""
    child = os.fork()
    if child:
        return abs(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    code = errno.EIO
    try:
        work()
        code = 0
    except OSError as error:
        code = error.errno or code
    finally:
        os._exit(code)


def end_with_parent(by: signal.Signals) -> None:
    """Have the kernel send this process a signal when the thread that started it ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)


def start_apart(work: Callable[[], object]) -> int:
    """Call `work` in a child process that signals to this process group do not reach.

    The process exits without the exit handlers and buffers inherited from this one.

    Returns:
        Its pid.
    """
    child = os.fork()
    if child:
        return child
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        work()
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
