"""Limit CPU shares without a cgroup: stop and continue processes many times a second.

Like the kernel's quota, a controller process gives each node a budget of CPU time every period. It
reads the CPU clock of the node's process, stops the process when the budget is spent and continues
it in the next period.

Unlike a quota this can fail: other processes may take a core, or the controller may wake up late.
So the controller also counts what each node got and what was withheld from it.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, NamedTuple

from nodewise.cluster.channel import Message, receive, send
from nodewise.cluster.child import start_apart
from nodewise.cluster.duty_controller import control
from nodewise.core.errors import RefusedError

TOLERANCE = 0.1
_JUDGED_AFTER_S = 3  # so that one bad second alone does not fail a node
_ANSWER_WITHIN_S = 5.0
_SCHEDSTAT = Path("/proc/self/schedstat")


class Share(NamedTuple):
    """What a node got in the `seconds` in which it was limited to `asked`, as shares of a core.

    `withheld` is the budget that the node would have spent if none of its threads had waited for a
    core. Budget that the node did not need is not withheld.
    """

    node: int
    asked: float
    got: float
    withheld: float
    seconds: float

    @property
    def error(self) -> float:
        """Relative error of the share: the larger of what was withheld and what was in excess."""
        return max(self.withheld, self.got - self.asked) / self.asked


class DutyCycle:
    """Limits the processes of one cell's nodes, one for each node, to their share of a core."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """Run the controller during the block. This process must have only one thread.

        The controller ends with the block and with this process.

        Raises:
            RefusedError: the kernel does not count how long processes run and wait.
        """
        if not _SCHEDSTAT.exists() or not int(_SCHEDSTAT.read_text(encoding="utf-8").split()[0]):
            raise RefusedError(
                "the kernel does not count how long a process waits for a core (schedstat)"
            )
        self._line, other = Pipe()

        def run() -> None:
            self._line.close()
            control(other)

        self.controller = start_apart(run)
        other.close()
        try:
            yield
        finally:
            os.kill(self.controller, signal.SIGKILL)
            os.waitpid(self.controller, 0)
            self._line.close()

    def put(self, rank: int, pid: int) -> None:
        """Make `pid` the process of node `rank`. Processes that it forks are not limited."""
        self._ask({"put": rank, "pid": pid})

    def limit(self, rank: int, cpu: float | None) -> None:
        """Limit node `rank` to the share `cpu` of one core from now on; None lifts the limit."""
        self._ask({"limit": rank, "cpu": cpu})

    def shares(self) -> list[Share]:
        """Return what each node got that is or was limited."""
        return [Share(*share) for share in self._ask({})["shares"]]

    def throttled(self, rank: int) -> dict[str, Any]:
        """Return how often and how long node `rank` was stopped since it was added."""
        names = ("periods", "throttled_periods", "throttled_s")  # as in NodeUsage
        return dict(zip(names, self._ask({})["throttled"][str(rank)], strict=True))

    def check(self) -> None:
        """Check that every node got its share within TOLERANCE, over all time that it was limited.

        Raises:
            RefusedError: a node does not get its share, or the controller is gone.
        """
        if reason := why_not_held(self.shares()):
            raise RefusedError(reason)

    def _ask(self, request: Message) -> Message:
        """Return the controller's answer.

        Raises:
            RefusedError: the controller is gone.
        """
        try:
            send(self._line, request)
            if self._line.poll(_ANSWER_WITHIN_S):
                return receive(self._line)
        except ConnectionError:
            pass
        raise RefusedError(
            "the process that held the nodes to their CPU share ended or no longer answers"
        )


def why_not_held(shares: list[Share]) -> str | None:
    """Return one line about the node with the largest error; None if all nodes get their share."""
    judged = [share for share in shares if share.seconds >= _JUDGED_AFTER_S]
    worst = max(judged, key=lambda share: share.error, default=None)
    if worst is None or worst.error <= TOLERANCE:
        return None
    return (
        f"node {worst.node} got {worst.got:.3f} of a core instead of {worst.asked:.3f}"
        f" (over {worst.seconds:.0f} s):"
        " the machine is too busy or has too few cores for a stop/continue duty cycle;"
        " use fewer nodes or a smaller share, or run as root or in a delegated CPU cgroup"
    )
