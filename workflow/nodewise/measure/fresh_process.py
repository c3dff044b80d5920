"""Run a function in a new process, for what a process can do only once."""

from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any


class EndedEarlyError(Exception):
    """The process ended without a result."""


def run_fresh(work: Callable[..., str], *arguments: Any) -> str:  # noqa: ANN401
    """Call `work`, a function of a module, in a new process; return the text that it returns.

    The process is terminated if this one is interrupted.

    Raises:
        EndedEarlyError: it ended without a result, for example because `work` raised an error.
    """
    fresh = get_context("spawn")
    receiver, sender = fresh.Pipe(duplex=False)
    process = fresh.Process(target=_send_result, args=(sender, work, arguments))
    process.start()
    sender.close()
    try:
        return receiver.recv_bytes().decode()
    except EOFError:
        process.join()
        raise EndedEarlyError(f"the process ended with exit code {process.exitcode}") from None
    finally:
        process.terminate()
        process.join()


def _send_result(sender: Connection, work: Callable[..., str], arguments: tuple[Any, ...]) -> None:
    sender.send_bytes(work(*arguments).encode())
