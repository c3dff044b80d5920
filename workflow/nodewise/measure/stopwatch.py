"""Time the steps of a training, and measure its CPU time and traffic.

Imports TensorFlow.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nodewise.cluster.channel import Message
from nodewise.data.pipeline import Batch
from nodewise.measure.traffic import traffic
from nodewise.strategies.api import Strategy

_PROGRESS_S = 0.5


class Stopwatch:
    """Measures the training of one worker while it runs: between `start` and `stop`.

    Both are collective, and so is `pause`: all workers call them between the same two steps.

    Args:
        strategy: what is trained.
        send: called with `{"event": "first_step"}` when the first step is done, and about twice a
            second with the share done.
        expected_steps: the number of steps that are timed in total.
    """

    def __init__(
        self, strategy: Strategy, send: Callable[[Message], None], expected_steps: int
    ) -> None:
        self._strategy, self._send, self._expected_steps = strategy, send, expected_steps
        self._step_us: list[int] = []
        self._input_us = 0
        self._clocks = np.zeros(2)  # seconds and CPU seconds
        self._bytes = np.zeros(3, np.int64)  # sent, received and retransmitted
        self._progress_at = time.perf_counter()

    def start(self) -> None:
        """Start to measure, or go on."""
        self._bytes -= self._bytes_so_far()
        self._clocks -= self._clocks_now()

    def stop(self) -> None:
        """Stop measuring."""
        self._clocks += self._clocks_now()
        self._bytes += self._bytes_so_far()

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Measure nothing during the block."""
        self.stop()
        yield
        self.start()

    def train(self, stream: Iterator[Batch], steps: int) -> dict[str, Any]:
        """Train `steps` steps; return their number, their total seconds and the last logs."""
        logs: dict[str, float] = {}
        started = time.perf_counter()
        for done in self._strategy.train(stream, steps):
            now = time.perf_counter()
            if not self._step_us:
                self._send({"event": "first_step", "at": time.monotonic() - sum(done.step_s[1:])})
            logs = done.logs
            self._step_us += [round(seconds * 1e6) for seconds in done.step_s]
            self._input_us += sum(round(seconds * 1e6) for seconds in done.input_s)
            if now - self._progress_at > _PROGRESS_S:
                self._progress_at = now
                self._send({"progress": len(self._step_us) / self._expected_steps})
        return {"steps": steps, "seconds": time.perf_counter() - started, "logs": logs}

    def result(self) -> dict[str, Any]:
        """Return what was measured, under the names of a worker's result."""
        elapsed_s, cpu_s = self._clocks.tolist()
        sent, received, retransmitted = self._bytes.tolist()
        return {
            "step_us": self._step_us,
            "input_us": self._input_us,
            "elapsed_s": elapsed_s,
            "cpu_s": cpu_s,
            "bytes_sent": sent,
            "bytes_received": received,
            "bytes_retransmitted": retransmitted,
        }

    def _clocks_now(self) -> NDArray[np.float64]:
        return np.array([time.perf_counter(), time.process_time()])

    def _bytes_so_far(self) -> NDArray[np.int64]:
        self._strategy.barrier()  # a step may return before its last bytes are sent
        seen = traffic()
        self._strategy.barrier()  # otherwise bytes of a faster worker's next step could be counted
        return np.array(seen)
