"""Half of a command's work in a fork of it: two threads of Python run no faster than one."""

import os
import signal
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar, cast

from nodewise.parents import end_with

Result = TypeVar("Result")

_jobs: list[Callable[[], object]] = []  # of this process: one, in the one that is forked for it


def beside(job: Callable[[], Result]) -> "Future[Result]":
    """Do `job` in a process that has what this one has now; the future is its result, or error.

    That process ends with this one. To be called in the main thread, with which it would end.
    """
    pool = ProcessPoolExecutor(1, get_context("fork"), _begin, (job, os.getpid()))
    try:
        return cast("Future[Result]", pool.submit(_do))
    finally:
        pool.shutdown(wait=False)


def _begin(job: Callable[[], object], parent: int) -> None:
    """Keep the job: as an argument of this, it is not copied, and need not be one that can be."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal: the command decides
    if not end_with(parent):
        os._exit(1)
    _jobs.append(job)


def _do() -> object:
    return _jobs[-1]()
