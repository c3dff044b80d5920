"""Run as a script: hold nodes to their share by a duty cycle; print observations as JSON lines.

python duty_job.py LOGS WORK NODES SHARE SECONDS [CORES]

WORK is what each node does: `busy`, or `crowd` (with a hundred sleeping threads beside it). The
first line names the processes. Then one line per second says which share each node got.
"""

import json
import os
import sys
import threading
import time
from functools import partial
from pathlib import Path

from nodewise.cluster import duty_cycle, process
from nodewise.cluster.channel import Channel, Message
from nodewise.core.errors import RefusedError


class Job(process.Job):
    """Limits, watches and releases the nodes, as a launcher does."""

    def __init__(self, logs: str, what: str, nodes: int, share: float, seconds: float) -> None:
        todo = partial(work, what=what, seconds=seconds)
        super().__init__(nodes, todo, logs=Path(logs), time_limit_s=60)
        self.cycle = duty_cycle.DutyCycle()
        self.nodes, self.share = nodes, share
        self.told = float("inf")

    def on_meeting(self, name: str, pids: list[int]) -> bool:
        if name == "placed":
            for rank, pid in enumerate(pids):
                self.cycle.put(rank, pid)
            print(json.dumps({"controller": self.cycle.controller, "nodes": pids}), flush=True)
        elif name == "warm":
            for rank in range(self.nodes):
                self.cycle.limit(rank, self.share)
            self.started = self.told = time.monotonic()
            self.used = cpu_time(self.cycle.controller)
        elif name == "timed":
            self.told = float("inf")
            for rank in range(self.nodes):
                self.cycle.limit(rank, None)
        return False

    def on_poll(self) -> None:
        self.cycle.check()
        now = time.monotonic()
        if now > self.told + 1:
            self.told = now
            used = cpu_time(self.cycle.controller) - self.used
            shares = [share._asdict() for share in self.cycle.shares()]
            seen = {"shares": shares, "controller": used / (now - self.started)}
            print(json.dumps(seen), flush=True)


def work(rank: int, channel: Channel, *, what: str, seconds: float) -> Message:
    channel.meet("placed")
    if what == "crowd":
        for _ in range(100):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
    threading.Thread(target=busy, daemon=True).start()
    channel.meet("warm")
    time.sleep(seconds)
    channel.meet("timed")
    return {}


def cpu_time(pid: int) -> float:
    return time.clock_gettime((~pid << 3) | 2)


def busy() -> None:
    while True:
        pass


if __name__ == "__main__":
    logs, what, nodes, share, seconds, *cores = sys.argv[1:]
    if cores:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(cores[0])])
    try:
        job = Job(logs, what, int(nodes), float(share), float(seconds))
        with job.cycle.held():
            job.run()
    except RefusedError as error:
        sys.exit(f"refused: {error}")
