"""Run the work of a worker process and report its result or its failure to the launcher."""

import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NoReturn

import psutil

from nodewise.cluster import memory
from nodewise.cluster.channel import Channel, Message
from nodewise.cluster.child import end_with_parent
from nodewise.core.errors import RefusedError, UserError

Work = Callable[[int, Channel], Message]

LINE_LENGTH = 500
# beginnings of lines of errors that explain nothing
_SAYING_NOTHING = r'Graph execution error:|Detected at node|File "|<stack traces|\d+ root error'


def be_worker(rank: int, work: Work, connection: Connection, log: Path | None) -> NoReturn:
    """Turn this process into worker `rank`: call `work`, report how it ended, then exit.

    The worker gets a process group of its own, and ends with the process that started it.

    Args:
        rank: rank of the worker.
        work: called with the rank and the channel to the launcher.
        connection: connection to the launcher.
        log: file to which output is redirected; None leaves the output as it is.
    """
    code = 1
    try:
        os.setpgid(0, 0)
        end_with_parent(signal.SIGKILL)
        memory.be_killed_first()
        if log:
            output = os.open(log, os.O_WRONLY | os.O_APPEND)
            for stream in (1, 2):
                os.dup2(output, stream)
        sys.stdout = sys.stderr = os.fdopen(1, "w", buffering=1, closefd=False)
        channel = Channel(connection)
        channel.wait()
        code = _work(rank, work, channel)
        for process in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                process.kill()
    finally:
        os._exit(code)  # does not wait for the worker's threads


def _work(rank: int, work: Work, channel: Channel) -> int:
    try:
        channel.send({"result": work(rank, channel)})
        signal.pause()  # exiting now would break the others' connections; the launcher kills us
        return 0
    except BaseException as error:
        channel.send({"failure": _failure_of(error), "at": time.monotonic()})
        traceback.print_exc()  # last, because a full disk does not take it
        return 1


def reason_of(error: BaseException) -> str:
    """Return an exception's message in one line, after its type unless it is meant for users.

    TensorFlow's errors in a graph first say where the node was defined, in many lines. Of these,
    the node's name is put at the end.
    """
    text = str(error)
    node = re.search(r"^Detected at node (\S+) defined at.*$", text, re.MULTILINE)
    lines = [line.strip() for line in text[node.end() if node else 0 :].splitlines()]
    saying = [line for line in lines if line and not re.match(_SAYING_NOTHING, line)]
    first_line = (saying or [""])[0] + (f" (at {node[1]})" if node else "")
    if not isinstance(error, UserError):
        first_line = f"{type(error).__name__}: {first_line}"
    return first_line[:LINE_LENGTH]


def _failure_of(error: BaseException) -> Message:
    """Return a worker's exception as a message for the launcher."""
    # names instead of classes, because this module must not import TensorFlow
    peer_error = isinstance(error, (ConnectionError, TimeoutError)) or type(error).__name__ in (
        "UnavailableError",
        "AbortedError",
        "CancelledError",
        "DeadlineExceededError",
    )
    text = reason_of(error)
    if memory.ran_out(error):
        text = f"out of memory: {text}"
    return {
        "text": text,
        "peer": peer_error,
        "refused": isinstance(error, RefusedError),
    }
