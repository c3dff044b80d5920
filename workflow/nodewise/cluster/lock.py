"""One measurement at a time on this machine, whichever study it belongs to."""

import errno
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from nodewise.cluster.process import end_with_parent

# An abstract address: it is no file, and the kernel frees it when the last holder ends, however. A
# lock on a file would not do: Linux keeps a user from opening another's file in /tmp for writing
# (fs.protected_regular), and the processes that are forked meanwhile could not hold it too.
_ADDRESS = "\0nodewise measures on this machine"
_POLL_S = 0.2


@contextmanager
def to_itself(on_wait: Callable[[], None]) -> Iterator[float]:
    """Yield the seconds waited once no other cell is measured; others wait until the block ends.

    `on_wait` is called once if there is someone to wait for. Processes forked inside the block hold
    the machine too, until they end: a killed launcher's guard does until its workers are gone.
    Enter it before moving into another network namespace.
    """
    started = time.monotonic()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as held:
        while not _bind(held):
            if time.monotonic() - started < _POLL_S:
                on_wait()
            end_with_parent()
            time.sleep(_POLL_S)
        yield time.monotonic() - started


def _bind(held: socket.socket) -> bool:
    try:
        held.bind(_ADDRESS)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True
