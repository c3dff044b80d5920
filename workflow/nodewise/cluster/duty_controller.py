"""Controller process of a duty cycle: stops and continues nodes and accounts their CPU time."""

import json
import os
import select
import signal
import socket
import time
import traceback
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple, NoReturn

from nodewise.cluster.cgroup import Throttled
from nodewise.cluster.duty_share import TOLERANCE, Share

PERIOD_S = 0.010  # as in cgroups: with longer periods, short steps run unthrottled
MESSAGE_BYTES = 1 << 16
# Waking up more often would cost more than it saves: overshoot is deducted from the next budget.
_SHORTEST_NAP_S = 0.0003
# A stop and continue costs an idle thread about 4 µs. A TensorFlow server has a hundred threads.
_STOP_NS = 20_000
# Reading the times of all threads costs as much as stopping them, so it is not done at every stop.
_SPAN_PERIODS = 10
_CPUCLOCK_SCHED = 2


def be_controller(line: socket.socket) -> NoReturn:
    """Run the controller until the launcher closes its end of `line`, then exit."""
    code = 1
    try:
        os.setsid()  # so that signals to the launcher's process group do not reach the controller
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        _Controller(line).run()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)  # without the exit handlers and buffers inherited from the launcher


class _Controller:
    """The controller's loop.

    It charges each node's CPU time to its budget, refills the budgets every period, stops nodes
    whose budget is spent, and answers the requests of the launcher.
    """

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._nodes: dict[int, _Node] = {}

    def run(self) -> None:
        refill_at = time.monotonic()
        while True:
            limited = [node for node in self._nodes.values() if node.limited]
            for node in limited:
                node.charge()
            now = time.monotonic()
            if now >= refill_at:
                periods = int((now - refill_at) / PERIOD_S) + 1
                refill_at += periods * PERIOD_S
                for node in limited:
                    node.refill(periods, now)
            for node in limited:
                node.stop_or_continue(now)
            budgets = [max(node.budget, _SHORTEST_NAP_S) for node in limited if not node.stopped]
            nap = min(refill_at - time.monotonic(), *budgets, PERIOD_S)
            timeout = max(nap, 0.0) if limited else None
            if select.select([self._line], [], [], timeout)[0] and not self._answer():
                return
            if not limited:
                refill_at = time.monotonic()

    def _answer(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self._line, MESSAGE_BYTES, 1)
        if not message:
            return False
        request = json.loads(message)
        if "put" in request:
            node = _Node(request["put"], request["pid"], descriptors[0])
            self._nodes[node.rank] = node
        elif "limit" in request:
            self._nodes[request["limit"]].limit(request["cpu"], time.monotonic())
        limited = [node for node in self._nodes.values() if node.asked]
        answer = {
            "shares": [asdict(node.share()) for node in limited],
            "throttled": {node.rank: node.throttled() for node in self._nodes.values()},
        }
        self._line.send(json.dumps(answer).encode())
        return True


class _Node:
    """A node's process: its budget (seconds of CPU time) and the times that it got or was denied.

    `budget` is what the process may still use in this period.
    """

    def __init__(self, rank: int, pid: int, pidfd: int) -> None:
        self.rank = rank
        self.limited = self.stopped = False
        self.asked = self.budget = 0.0
        self._pidfd = pidfd
        self._clock = (~pid << 3) | _CPUCLOCK_SCHED  # as clock_getcpuclockid(3) makes it
        self._threads = _Threads(pid)
        self._periods = self._stopped_periods = 0
        self._stopped_s = 0.0

    def limit(self, cpu: float | None, now: float) -> None:
        """Limit the process to the share `cpu` of a core and count from now on; None ends both."""
        if self.limited:
            self.charge()
            self._end_span()
        self._let_run(now)
        self.limited = False
        if cpu is not None:
            if cpu != self.asked:
                self._count_from_zero()
            with suppress(OSError):  # the process has ended
                self._cpu = time.clock_gettime(self._clock)
                self.limited = True
            self.asked, self.budget, self._until = cpu, cpu * PERIOD_S, now
            self._threads.find()
            self._threads.read(stops=0)

    def charge(self) -> None:
        """Deduct the CPU time used since the last call from the budget."""
        try:
            cpu = time.clock_gettime(self._clock)
        except OSError:  # the process has ended; its counts stay
            self.limited = False
            return
        used, self._cpu = cpu - self._cpu, cpu
        self.budget -= used
        self._got += used

    def refill(self, periods: int, now: float) -> None:
        """Begin a new period: refill the budget.

        Unused budget is lost; overdrawn budget is carried over.

        Args:
            periods: number of periods since the last refill.
            now: current time of the monotonic clock.
        """
        grant, spent = self.asked * PERIOD_S, self.stopped or self.budget <= 0
        budget = min(grant, self.budget + periods * grant)
        lost, self.budget = self.budget + periods * grant - budget, budget
        self._periods += periods
        self._span += periods
        if spent:
            self._withheld += lost  # more than 0 if this refill is late
            self._stops += 1
            self._stopped_periods += periods
        else:
            self._unspent += lost
        if (spent and self._unspent) or self._span >= _SPAN_PERIODS:
            self._end_span()
        self._seconds += now - self._until
        self._until = now
        if self._seconds - self._before.seconds >= 1:
            self._end_second()

    def stop_or_continue(self, now: float) -> None:
        """Stop the process if its budget is spent, otherwise let it run."""
        if self.budget > 0:
            self._let_run(now)
        elif not self.stopped:
            self.stopped, self._stopped_at = True, now
            self._signal(signal.SIGSTOP)

    def share(self) -> Share:
        """Return what the process got in all the time that it was limited to its current share."""
        seconds = max(self._seconds, PERIOD_S)
        return Share(
            node=self.rank,
            asked=self.asked,
            got=self._got / seconds,
            withheld=self._withheld / seconds,
            stopping=self._stopping / seconds,
            seconds=self._seconds,
            seconds_outside=self._outside,
        )

    def throttled(self) -> Throttled:
        """Return how often and how long the process was stopped since it was added."""
        return Throttled(self._periods, self._stopped_periods, self._stopped_s)

    def _let_run(self, now: float) -> None:
        if self.stopped:
            self.stopped = False
            self._stopped_s += now - self._stopped_at
            self._signal(signal.SIGCONT)

    def _count_from_zero(self) -> None:
        self._got = self._withheld = self._unspent = self._stopping = self._seconds = 0.0
        self._outside = self._stops = self._span = 0
        self._before = _Before(0.0, 0.0, 0.0)

    def _end_span(self) -> None:
        """End a span of a few periods: account withheld CPU time and the cost of stopping.

        If a thread waited for a core for at least as long as the unspent budget would have lasted,
        the node would have spent that budget, so it counts as withheld. The kernel counts a wait
        only when it is over, so a period that spends its budget ends a span of periods that did
        not. The CPU time that idle threads used to be stopped and continued is given back.
        """
        waited, idle = self._threads.read(self._stops)
        if waited >= self._unspent:
            self._withheld += self._unspent
        self.budget += idle
        self._got -= idle
        self._stopping += idle
        self._unspent, self._stops, self._span = 0.0, 0, 0

    def _end_second(self) -> None:
        self._end_span()
        self._threads.find()
        before, self._before = self._before, _Before(self._seconds, self._got, self._withheld)
        due = self.asked * (self._seconds - before.seconds)
        wrong = max(self._withheld - before.withheld, self._got - before.got - due)
        self._outside += wrong > TOLERANCE * due

    def _signal(self, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            self.limited = False


class _Before(NamedTuple):
    """Counts of a node, in seconds, at the end of the last full second."""

    seconds: float
    got: float
    withheld: float


class _Threads:
    """Running and waiting times of the threads of a process, as counted by the kernel."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}/task")
        # by thread: descriptor of its schedstat file, nanoseconds run, nanoseconds waited
        self._open: dict[str, tuple[int, int, int]] = {}

    def find(self) -> None:
        """Find new threads. They count from now on."""
        with suppress(FileNotFoundError):
            for thread in self._folder.iterdir():
                if thread.name not in self._open:
                    with suppress(OSError):
                        file = os.open(thread / "schedstat", os.O_RDONLY)
                        self._open[thread.name] = (file, *_ran_and_waited(file))

    def read(self, stops: int) -> tuple[float, float]:
        """Read the times of all threads since the last call.

        Args:
            stops: number of times that the process was stopped since the last call.

        Returns:
            The longest time that a thread waited for a core, and the total time that idle threads
            ran, both in seconds. A thread is idle if it ran no longer than it takes to be stopped
            and continued `stops` times.
        """
        most = idle = 0
        for thread, (file, ran_before, waited_before) in list(self._open.items()):
            try:
                ran, waited = _ran_and_waited(file)
            except ProcessLookupError:
                os.close(file)
                del self._open[thread]
                continue
            most = max(most, waited - waited_before)
            if ran - ran_before <= stops * _STOP_NS:
                idle += ran - ran_before
            self._open[thread] = file, ran, waited
        return most * 1e-9, idle * 1e-9


def _ran_and_waited(schedstat: int) -> tuple[int, int]:
    ran, waited, _ = os.pread(schedstat, 64, 0).split()
    return int(ran), int(waited)
