"""Controller process of a duty cycle: stops and continues nodes and accounts their CPU time."""

import os
import select
import signal
import time
from contextlib import suppress
from multiprocessing.connection import Connection

from nodewise.cluster.channel import receive, send

PERIOD_S = 0.010  # as in cgroups: with longer periods, short steps run unthrottled
# Waking up more often would cost more than it saves: overshoot is deducted from the next budget.
_SHORTEST_NAP_S = 0.0003
# A stop and continue costs an idle thread about 4 µs. A TensorFlow server has a hundred threads.
_STOP_NS = 20_000
# Reading the times of all threads costs as much as stopping them, so it is done once in a span.
_SPAN_PERIODS = 20
_CPUCLOCK_SCHED = 2


def control(line: Connection) -> None:
    """Charge, refill, stop and continue the nodes, and answer the requests of the launcher.

    Returns when the launcher closes its end of `line`.
    """
    nodes: dict[int, _Node] = {}
    refill_at = time.monotonic()
    while True:
        limited = [node for node in nodes.values() if node.limited]
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
        nap = max(0.0, min(refill_at - time.monotonic(), *budgets, PERIOD_S))
        if select.select([line], [], [], nap if limited else None)[0]:
            try:
                _answer(line, nodes)
            except ConnectionError:
                return
        if not limited:
            refill_at = time.monotonic()


def _answer(line: Connection, nodes: "dict[int, _Node]") -> None:
    request = receive(line)
    if "put" in request:
        nodes[request["put"]] = _Node(request["pid"])
    elif "limit" in request:
        nodes[request["limit"]].limit(request["cpu"], time.monotonic())
    shares = [(rank, *node.share()) for rank, node in nodes.items() if node.asked]
    send(line, {"shares": shares, "throttled": {n: node.throttled for n, node in nodes.items()}})


class _Node:
    """A node's process: its budget and the times that it got or was denied.

    Attributes:
        budget: seconds of CPU time that the process may still use in this period.
        throttled: periods, periods in which it was stopped, and seconds for which it was stopped.
    """

    def __init__(self, pid: int) -> None:
        self.limited = self.stopped = False
        self.asked = self.budget = 0.0
        self.throttled: tuple[int, int, float] = 0, 0, 0.0
        self._pidfd = os.pidfd_open(pid)
        self._clock = (~pid << 3) | _CPUCLOCK_SCHED  # as clock_getcpuclockid(3) makes it
        self._pid = pid

    def limit(self, cpu: float | None, now: float) -> None:
        """Limit the process to the share `cpu` of a core and count from now on; None ends both."""
        if self.limited:
            self.charge()
            self._end_span()
        self._let_run(now)
        self.limited = False
        if cpu is not None:
            if cpu != self.asked:  # else continue to count
                self._got = self._withheld = self._seconds = 0.0
            with suppress(OSError):  # the process has ended
                self._cpu = time.clock_gettime(self._clock)
                self.limited = True
            self.asked, self.budget, self._until = cpu, cpu * PERIOD_S, now
            self._begin_span(_read_threads(self._pid))

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
        counted, stopped, seconds = self.throttled
        self.throttled = counted + periods, stopped + spent * periods, seconds
        if spent:
            self._withheld += lost  # more than 0 if this refill is late
            self._stops += 1
        else:
            self._unspent += lost
        self._seconds += now - self._until
        self._until = now
        self._periods += periods
        if self._periods >= _SPAN_PERIODS:
            self._end_span()

    def stop_or_continue(self, now: float) -> None:
        """Stop the process if its budget is spent, otherwise let it run."""
        if self.budget > 0:
            self._let_run(now)
        elif not self.stopped:
            self.stopped, self._stopped_at = True, now
            self._signal(signal.SIGSTOP)

    def share(self) -> tuple[float, float, float, float]:
        """Return the fields `asked`, `got`, `withheld` and `seconds` of this node's Share."""
        seconds = max(self._seconds, PERIOD_S)
        return self.asked, self._got / seconds, self._withheld / seconds, self._seconds

    def _let_run(self, now: float) -> None:
        if self.stopped:
            periods, stopped, seconds = self.throttled
            self.throttled = periods, stopped, seconds + now - self._stopped_at
            self.stopped = False
            self._signal(signal.SIGCONT)

    def _begin_span(self, threads: dict[str, tuple[int, int]]) -> None:
        self._unspent, self._stops, self._periods, self._threads = 0.0, 0, 0, threads

    def _end_span(self) -> None:
        """Account withheld CPU time and the cost of stopping, for a span of a few periods.

        If a thread waited for a core for at least as long as the unspent budget would have lasted,
        the node would have spent that budget, so it counts as withheld. The CPU time that idle
        threads used to be stopped and continued is given back: a thread is idle if it ran no longer
        than that takes.
        """
        now = _read_threads(self._pid)
        both = [(now[thread], self._threads[thread]) for thread in now.keys() & self._threads]
        ran = [(after[0] - before[0]) for after, before in both]
        waited = max((after[1] - before[1] for after, before in both), default=0) * 1e-9
        idle = sum(one for one in ran if one <= self._stops * _STOP_NS) * 1e-9
        if waited >= self._unspent:
            self._withheld += self._unspent
        self.budget += idle
        self._got -= idle
        self._begin_span(now)

    def _signal(self, number: signal.Signals) -> None:
        try:
            signal.pidfd_send_signal(self._pidfd, number)
        except ProcessLookupError:
            self.limited = False


def _read_threads(pid: int) -> dict[str, tuple[int, int]]:
    """Return for each thread of a process how long it ran and waited for a core, in nanoseconds."""
    times = {}
    with suppress(FileNotFoundError), os.scandir(f"/proc/{pid}/task") as threads:
        for thread in threads:
            with suppress(FileNotFoundError, ProcessLookupError):  # the thread has ended
                file = os.open(f"{thread.path}/schedstat", os.O_RDONLY)
                try:
                    ran, waited, _ = os.read(file, 64).split()
                finally:
                    os.close(file)
                times[thread.name] = int(ran), int(waited)
    return times
