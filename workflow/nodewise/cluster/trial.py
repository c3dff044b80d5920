"""Try something in a child process that this process could not undo."""

import errno
import os
from collections.abc import Callable


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
