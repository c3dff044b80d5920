"""Lock this machine, so that only one cell at a time is measured on it, of whatever study."""

import errno
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

from nodewise.cluster.guard import end_with_starter
from nodewise.core.units import write_duration

log = logging.getLogger(__name__)

# The lock is a socket with an abstract address. It is not a file, and the kernel frees it when the
# last process that holds it ends, whatever the cause. A file lock would not do: Linux forbids users
# to open another user's file in /tmp for writing (fs.protected_regular), and forked processes could
# not hold it, too.
_ADDRESS = "\0nodewise measures on this machine"
_POLL_S, _TOLD_EVERY_S = 0.2, 60.0


@contextmanager
def exclusive_machine() -> Iterator[float]:
    """Wait until no other cell is measured on this machine; yield the seconds waited.

    Other cells wait until the block ends. Processes forked inside the block also hold the lock
    until they end. For example, the guard of a killed launcher holds it until the workers are
    gone. Enter the block before moving into another network namespace.
    """
    end_with_starter()
    started, told_at_s = time.monotonic(), 0.0
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as place:
        while not _bound(place):
            if (waited_s := time.monotonic() - started) >= told_at_s:
                told_at_s = waited_s + _TOLD_EVERY_S
                waited = f"waiting for it ({write_duration(round(waited_s))} so far)"
                log.warning("another cell is being measured on this machine; %s", waited)
            time.sleep(_POLL_S)
        yield time.monotonic() - started


def _bound(place: socket.socket) -> bool:
    try:
        place.bind(_ADDRESS)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True
