"""The job of a measurement: its workers work in blocks, while the machine is watched."""

import time
from collections.abc import Sequence
from pathlib import Path

from nodewise.cluster.api import Cluster
from nodewise.cluster.channel import Message
from nodewise.cluster.hosts import Hosts, HostWorker
from nodewise.cluster.process import Job
from nodewise.cluster.worker import Work
from nodewise.cluster.worker_state import Worker
from nodewise.core.errors import RefusedError
from nodewise.measure.environment import ENVIRONMENT, KEEP_MEMORY
from nodewise.results.record import Conditions

_ROOM = 2  # a repeated block, with its warm-up, takes at most this many times as long as the last


class BlockJob(Job):
    """A job that limits nodes to their share during a block of work.

    The workers meet when each is in its node ("placed"), before a block ("warm") and after it
    ("timed"). The block is repeated, up to `most_blocks` in all, if the machine was not quiet. It
    is not repeated if the rest of the time limit may be too short: the measurement would be lost.

    Attributes:
        blocks: the conditions of all blocks so far.
    """

    def __init__(
        self,
        cluster: Cluster,
        workers: int,
        work: Work,
        *,
        logs: Path,
        time_limit_s: float,
        preload: Sequence[str] = (),
        most_blocks: int,
        host_job: Message | None = None,
        host_files: Sequence[Path] = (),
    ) -> None:
        """Describe the job. On hosts, agents do `host_job` with these files of the project."""
        super().__init__(workers, work, logs=logs, time_limit_s=time_limit_s, preload=preload)
        self.blocks: list[Conditions] = []
        self._cluster, self._most_blocks = cluster, most_blocks
        self._host_job = (host_job or {}) | {"time_limit_s": time_limit_s}
        self._host_files = host_files
        self._ends = time.monotonic() + time_limit_s
        self._replicas: set[str] = set()

    def run(self) -> list[Message]:
        """Copy the files to the hosts, which takes no time of the job, and run it."""
        if isinstance(self._cluster, Hosts):
            for rank in range(0, self._size, self._cluster.per_host):
                self._cluster.prepare(rank, self._host_files)
        return super().run()

    def start(self, rank: int, log: Path) -> Worker:
        """Start a worker, on its host if the nodes are hosts."""
        if not isinstance(self._cluster, Hosts):
            return super().start(rank, log)
        return HostWorker(self._cluster, rank, log, self._host_job, ENVIRONMENT | KEEP_MEMORY)

    def on_message(self, rank: int, message: Message) -> None:
        """Note the digest of a worker's weights, `{"replica": …}`."""
        self._replicas.add(message["replica"])

    def on_meeting(self, name: str, pids: list[int]) -> bool:
        """Act when all workers have met; return whether they must repeat the block.

        Raises:
            RefusedError: the workers' weights differ.
        """
        from nodewise.measure.quiet_machine import Watch  # imports NumPy

        if name == "placed":
            self._cluster.connect(pids)
        elif name == "warm":
            check_replicas(self._replicas)
            self._began, self._watch = time.monotonic(), Watch(self._cluster)
            self._cluster.apply_limits()
        elif name == "timed":
            self.blocks.append(self._watch.conditions())
            self._cluster.lift_limits()
            now = time.monotonic()
            fits = now + _ROOM * (now - self._began) < self._ends
            return bool(self.blocks[-1].outside) and len(self.blocks) < self._most_blocks and fits
        return False

    def on_poll(self) -> None:
        """Check that the nodes are held to their limits."""
        self._cluster.check()


def check_replicas(digests: set[str]) -> None:
    """Check that all workers sent the same digest of their weights after two steps.

    Raises:
        RefusedError: the digests differ.
    """
    if len(digests) > 1:
        raise RefusedError(
            "the replicas differ after two steps: the model changes weights other than by its "
            "optimizer, so that a strategy cannot see it"
        )
