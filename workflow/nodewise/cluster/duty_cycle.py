"""Limit CPU shares without a cgroup: stop and continue processes many times a second.

Like the kernel's quota, a controller process gives each node a budget of CPU time every period. It
reads the CPU clock of the node's process, stops the process when the budget is spent and continues
it in the next period.

Unlike a quota this can fail: other processes may take a core, or the controller may wake up late.
So the controller also counts what each node got and what was withheld from it. `check` raises an
error if a node did not get its share.
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
    """Limits the processes of one cell's nodes, one for each node, to their share of a core."""

    def __init__(self) -> None:
        self._controller = 0
        self._pidfds: list[int] = []

    def make(self) -> None:
        """Fork the controller. This process must have only one thread.

        Raises:
            NotPermittedError: the kernel does not count how long processes run and wait.
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
        """Make `pid`, a child of this process, the process of node `rank`.

        Processes that it forks are not limited.
        """
        pidfd = os.pidfd_open(pid)
        self._pidfds.append(pidfd)
        self._ask({"put": rank, "pid": pid}, [pidfd])

    def limit(self, rank: int, cpu: float | None) -> None:
        """Limit node `rank` to the share `cpu` of one core from now on; None lifts the limit.

        Raises:
            NotPermittedError: the controller is gone. All processes have been continued.
        """
        self._ask({"limit": rank, "cpu": cpu})

    def shares(self) -> list[Share]:
        """Return what each node got that is or was limited.

        Raises:
            NotPermittedError: the controller is gone. All processes have been continued.
        """
        return [Share(**share) for share in self._ask({})["shares"]]

    def throttled(self, rank: int) -> Throttled:
        """Return how often and how long node `rank` was stopped since it was added.

        Raises:
            NotPermittedError: the controller is gone. All processes have been continued.
        """
        return Throttled(*self._ask({})["throttled"][str(rank)])

    def check(self) -> None:
        """Check that every node gets its share.

        Call it at least every second or so, and once before limits are lifted.

        A node is outside its share if more than TOLERANCE of the share was withheld, or if it got
        more than TOLERANCE too much. The check fails if a node is outside its share over all the
        time that it was limited, or in more single seconds than a quarter of them plus one. A node
        is judged after three seconds.

        Withheld is the budget that a node would have spent if none of its threads had waited for a
        core. Budget that the node did not need is not withheld.

        Raises:
            NotPermittedError: a node does not get its share, or the controller is gone.
        """
        reason = why_not_held(self.shares())
        if reason:
            raise NotPermittedError(reason)

    def remove(self) -> None:
        """Kill the controller and continue all processes."""
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
        except OSError:  # the controller is gone, or its answer is late
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
    """Run the controller of `cycle` during the block.

    If this process is killed in the block, the controller ends too.
    """
    try:
        cycle.make()
        yield
    finally:
        cycle.remove()


def _counts_running() -> bool:
    try:
        return int(_SCHEDSTAT.read_text(encoding="utf-8").split()[0]) > 0
    except FileNotFoundError:  # the kernel was built without schedstat
        return False
