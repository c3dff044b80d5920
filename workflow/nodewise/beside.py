"""Half of a command's work in a fork of it: two threads of Python run no faster than one."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TypeVar, cast

from nodewise.parents import end_with

Result = TypeVar("Result")

_jobs: list[Callable[[], object]] = []  # of this process: one, in the one that is forked for it


@contextmanager
def beside(job: Callable[[], Result]) -> Iterator["Future[Result]"]:
    """Do `job` in a process that has what this one has now; the future is its result, or error.

    That process is gone when the context is left: left to the end of Python, threads that mind it
    may be at their own end, of which Python then complains. To be entered in the main thread, with
    which the process would end.
    """
    with ProcessPoolExecutor(1, get_context("fork"), _begin, (job, os.getpid())) as pool:
        yield cast("Future[Result]", pool.submit(_do))


def _begin(job: Callable[[], object], parent: int) -> None:
    """Keep the job: as an argument of this, it is not copied, and need not be one that can be."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the command decides
    if not end_with(parent):
        os._exit(1)
    _jobs.append(job)


def _do() -> object:
    return _jobs[-1]()
