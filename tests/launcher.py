"""Run the jobs of all tests in one launcher process, which imports modules only once."""

import multiprocessing
import os
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

from nodewise.cluster import namespace

_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "OPENBLAS_NUM_THREADS": "1",  # a process with several threads cannot enter a node's namespace
    "TF_CPP_MIN_LOG_LEVEL": "2",
}
_END_WITHIN_S = 10


class Launcher:
    """A process that calls functions, such as jobs, one after the other."""

    def __init__(self, backend: str = "tensorflow") -> None:
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(theirs,))
        with mock.patch.dict(os.environ, _ENVIRONMENT | {"KERAS_BACKEND": backend}):
            self._process.start()
        theirs.close()

    def run(self, function: Callable[..., None], *arguments: Any, timeout_s: float) -> str:
        """Call a function in the launcher process; return the traceback of its error, or "".

        Raises:
            TimeoutError: the call took longer than `timeout_s` seconds; the launcher has been
                killed.
        """
        self._connection.send((function, arguments))
        if not self._connection.poll(timeout_s):
            self.end(0)
            raise TimeoutError(f"{function.__module__}: not finished within {timeout_s:g} s")
        return self._connection.recv()

    def end(self, within_s: float = _END_WITHIN_S) -> None:
        """End the launcher process and all that it started; kill it if that takes too long."""
        self._connection.close()
        self._process.join(within_s)
        self._process.kill()
        self._process.join()


def _serve(connection: Connection) -> None:
    private = namespace.enter_network()
    # Jobs open clusters, and each cluster would enter a new network. The process that workers are
    # forked from is not in that network.
    namespace.enter_network = lambda: private
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:  # the tests have ended
            return
        error = ""
        try:
            function(*arguments)
        except Exception:
            error = traceback.format_exc()
        connection.send(error)
