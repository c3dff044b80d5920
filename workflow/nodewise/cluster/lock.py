"""One measurement at a time on a machine, whichever study it belongs to."""

import errno
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

from nodewise.cluster.guard import end_with_parent

# An abstract address: it is no file, and the kernel frees it when the last holder ends, however. A
# lock on a file would not do: Linux keeps a user from opening another's file in /tmp for writing
# (fs.protected_regular), and the processes that are forked meanwhile could not hold it too.
_ADDRESS = "\0nodewise measures on "
_THIS = "this machine"
_POLL_S = 0.2


@contextmanager
def to_itself(on_wait: Callable[[], None]) -> Iterator[float]:
    """Yield the seconds waited once no other cell is measured; others wait until the block ends.

    `on_wait` is called once if there is someone to wait for. Processes forked inside the block hold
    the machine too, until they end: a killed launcher's guard does until its workers are gone.
    Enter it before moving into another network namespace.
    """
    started = time.monotonic()
    with some([_THIS], 1, on_wait):
        yield time.monotonic() - started


@contextmanager
def some(machines: Sequence[str], count: int, on_wait: Callable[[], None]) -> Iterator[list[str]]:
    """Yield `count` of `machines` on which no other cell is measured, as `to_itself` for this one.

    Whoever measures on them has to be started on this machine.
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
    """Take at most `count` of `machines` that are free, until `held` is closed; return them."""
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
