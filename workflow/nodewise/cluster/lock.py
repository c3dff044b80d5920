"""Lock machines, so that only one cell at a time is measured on each, of whatever study."""

import errno
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from nodewise.cluster.guard import end_with_parent

# The lock is a socket with an abstract address. It is not a file, and the kernel frees it when the
# last process that holds it ends, whatever the cause. A file lock would not do: Linux forbids users
# to open another user's file in /tmp for writing (fs.protected_regular), and forked processes could
# not hold it, too.
_ADDRESS = "\0nodewise measures on "
_THIS = "this machine"
_POLL_S = 0.2


@contextmanager
def to_itself(on_wait: Callable[[], None]) -> Iterator[float]:
    """Wait until no other cell is measured on this machine; yield the seconds waited.

    Other cells wait until the block ends. Processes forked inside the block also hold the lock
    until they end. For example, the guard of a killed launcher holds it until the workers are
    gone. Enter the block before moving into another network namespace.

    Args:
        on_wait: called once if another cell is being measured.
    """
    started = time.monotonic()
    with some([_THIS], 1, on_wait):
        yield time.monotonic() - started


@contextmanager
def some(machines: Sequence[str], count: int, on_wait: Callable[[], None]) -> Iterator[list[str]]:
    """Wait until no other cell is measured on `count` of `machines`; yield their names.

    Works like `to_itself`, for several machines. All measurements on them must be started on this
    machine, because the lock is known here only.
    """
    waiting = False
    while True:
        with ExitStack() as held:
            free = _held(machines, count, held)
            if len(free) == count:
                yield free
                return
        if not waiting:
            on_wait()
            waiting = True
        end_with_parent()
        time.sleep(_POLL_S)


def _held(machines: Sequence[str], count: int, held: ExitStack) -> list[str]:
    """Lock at most `count` free ones of `machines` until `held` is closed; return their names."""
    free: list[str] = []
    for machine in machines:
        if len(free) < count:
            place = held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            if _bind(place, _ADDRESS + machine):
                free.append(machine)
    return free


def _bind(place: socket.socket, address: str) -> bool:
    try:
        place.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        return False
    return True
