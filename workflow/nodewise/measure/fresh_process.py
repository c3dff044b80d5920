"""Run a function in a new process, for what a process can do only once."""

import traceback
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

from nodewise.cluster.channel import receive, send
from nodewise.cluster.guard import end_with_starter
from nodewise.cluster.worker import reason_of


class EndedEarlyError(Exception):
    """The process ended without a result; the message says why."""


def run_fresh(work: Callable[..., Any], *arguments: Any) -> Any:  # noqa: ANN401
    """Call `work`, a function of a module, in a new process; return the JSON value it returns.

    The process is terminated if this one is interrupted, and both if this one's parent ends.

    Raises:
        EndedEarlyError: `work` raised an error, or the process was killed.
    """
    end_with_starter()
    fresh = get_context("spawn")
    receiver, sender = fresh.Pipe(duplex=False)
    process = fresh.Process(target=_send_result, args=(sender, work, arguments))
    process.start()
    sender.close()
    try:
        answer = receive(receiver)
        process.join(10)  # it removes its temporary folder
    except ConnectionError:
        process.join()
        raise EndedEarlyError(f"the process ended with exit code {process.exitcode}") from None
    finally:
        process.terminate()
        process.join()
    if "error" in answer:
        raise EndedEarlyError(answer["error"])
    return answer["result"]


def _send_result(sender: Connection, work: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    end_with_starter()
    try:
        answer = {"result": work(*arguments)}
    except Exception as error:  # of any code, such as a user's model
        traceback.print_exc()
        answer = {"error": reason_of(error)}
    send(sender, answer)
