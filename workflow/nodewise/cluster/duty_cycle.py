"""CPU shares without a cgroup: processes are stopped and continued, many times a second.

A controller process gives each node a budget every period, as the kernel's quota does, reads the
CPU clock of the node's process, stops it when the budget is spent and continues it at the next
period. Unlike a quota this can fail: a core may be taken by others, or the controller wake up late.
So the controller also counts what each node got and what was withheld from it, and `check` says so.
"""

import json
import os
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nodewise.cluster.api import NotPermittedError
from nodewise.cluster.cgroup import Throttled
from nodewise.cluster.duty_controller import MESSAGE_BYTES, be_controller
from nodewise.cluster.duty_share import Share, why_not_held

_ANSWER_WITHIN_S = 5.0
_SCHEDSTAT = Path("/proc/self/schedstat")


class DutyCycle:
    """Holds the processes of one cell's nodes, one a node, to their share of a core."""

    def __init__(self) -> None:
        self._controller = 0
        self._pidfds: list[int] = []

    def make(self) -> None:
        """Fork the controller; this process must have one thread.

        Raises:
            NotPermittedError: the kernel does not count what the controller must know.
        """
        if not _counts_running():
            raise NotPermittedError(
                "the kernel does not count how long a process waits for a core (schedstat)"
            )
        self._line, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._controller = os.fork()
        if self._controller == 0:
            self._line.close()
            be_controller(other)
        other.close()
        self._line.settimeout(_ANSWER_WITHIN_S)

    def put(self, rank: int, pid: int) -> None:
        """Make `pid`, a child of this process, the process of node `rank`; not what it forks."""
        pidfd = os.pidfd_open(pid)
        self._pidfds.append(pidfd)
        self._ask({"put": rank, "pid": pid}, [pidfd])

    def limit(self, rank: int, cpu: float | None) -> None:
        """Give node `rank` the share `cpu` of one core from now on; None lifts the limit.

        Raises:
            NotPermittedError: the controller is gone; no process is stopped then.
        """
        self._ask({"limit": rank, "cpu": cpu})

    def shares(self) -> list[Share]:
        """Return what every node that was limited got.

        Raises:
            NotPermittedError: the controller is gone; no process is stopped then.
        """
        return [Share(**share) for share in self._ask({})["shares"]]

    def throttled(self, rank: int) -> Throttled:
        """Return how often and how long node `rank` was stopped since it was put here.

        Raises:
            NotPermittedError: the controller is gone; no process is stopped then.
        """
        return Throttled(*self._ask({})["throttled"][str(rank)])

    def check(self) -> None:
        """Judge the shares; call it about every second, and once before limits are lifted.

        A node is not held if over all the time it was limited more than TOLERANCE of its share was
        withheld from it or it got more than TOLERANCE too much, or if that was so in more than a
        quarter of the seconds and more than one. Withheld is budget that it would have spent had no
        thread of it waited for a core; what it did not want is not. Judged from three seconds on.

        Raises:
            NotPermittedError: a node is not held, or the controller is gone.
        """
        reason = why_not_held(self.shares())
        if reason:
            raise NotPermittedError(reason)

    def remove(self) -> None:
        """End the controller and leave no process stopped."""
        if self._controller:
            os.kill(self._controller, signal.SIGKILL)
            os.waitpid(self._controller, 0)
            self._controller = 0
            self._line.close()
        for pidfd in self._pidfds:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(pidfd, signal.SIGCONT)
            os.close(pidfd)
        self._pidfds.clear()

    def _ask(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        try:
            socket.send_fds(self._line, [json.dumps(request).encode()], descriptors)
            answer = self._line.recv(MESSAGE_BYTES)
        except OSError:  # gone, or too late
            answer = b""
        if not answer:
            self.remove()
            raise NotPermittedError(
                "the process that held the nodes to their CPU share ended or no longer answers"
            )
        answered: dict[str, Any] = json.loads(answer)
        return answered


@contextmanager
def made(cycle: DutyCycle) -> Iterator[None]:
    """Make `cycle` for the block; should this process be killed in it, the controller ends too."""
    try:
        cycle.make()
        yield
    finally:
        cycle.remove()


def _counts_running() -> bool:
    try:
        return int(_SCHEDSTAT.read_text(encoding="utf-8").split()[0]) > 0
    except FileNotFoundError:  # a kernel that is made without it
        return False
