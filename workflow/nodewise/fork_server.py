"""The commands that report are forked from one process that imported their libraries.

Each step from records to the site is a command of its own, and half of its time would be pandas,
SciPy and Altair being imported. A run of the workflow starts one process that imports them while
Snakemake still plans, and ends with it. A command that finds it has itself forked there: in its own
folder and environment, on its own standard streams. One that finds none runs as ever.
"""

import gc
import json
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import traceback
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from nodewise.parents import end_with
from nodewise.runs import end_with_workflow

COMMANDS = {
    *("build-tables", "fit-overhead", "judge-overhead", "draw-charts"),
    *("render-cells", "render-pages", "build-site"),
}
_LIBRARIES = (
    *("nodewise.published", "nodewise.tables", "nodewise.views"),
    *("nodewise.overhead.study", "nodewise.charts", "nodewise.pages", "nodewise.site"),
    *("pyarrow.parquet", "pandas.io.parsers", "mkdocs.commands.build"),
    *("pymdownx.superfences", "material.plugins.search.plugin"),
)
_ADDRESS = "NODEWISE_FORK_SERVER"
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST = 2**20  # bytes of a request: arguments and environment
_LOST = 1  # exit status of a command whose server is gone


def start() -> None:
    """Start the server of a run; the commands that this process runs find it, and it ends with it.

    To be called in the main thread, with which the server ends.
    """
    name = f"nodewise-{os.getpid()}"
    subprocess.Popen(
        [sys.executable, "-m", "nodewise.fork_server", name],
        stdin=subprocess.DEVNULL,
        # matrices here are small: fits that run side by side would wait for each other's threads
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    os.environ[_ADDRESS] = name


def run_there(arguments: Sequence[str]) -> int | None:
    """Have the server run `nodewise ARGUMENTS`, in this process's place; None if there is none.

    Returns its exit status; 128 and the number of the signal if one ended it, as shells do.
    """
    name = os.environ.pop(_ADDRESS, "")
    if not name or not arguments or arguments[0] not in COMMANDS:
        return None
    end_with_workflow()
    request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        server.connect(_abstract(name))
        if not _is_ours(server):
            return None
        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
    except OSError:  # it is not there, or the environment is larger than a message may be
        return None
    for number in _PASSED_ON:
        signal.signal(number, lambda number, frame: server.send(bytes([number])))
    with suppress(ConnectionError):
        if status := server.recv(1):
            return status[0]
    print("nodewise: the process that this was forked from is gone", file=sys.stderr)
    return _LOST


def main() -> None:
    """Import the libraries, then fork a process for each command until the workflow is gone.

    Its argument is a name that ends with the number of the workflow's process.
    """
    name = sys.argv[1]
    if not end_with(int(name.rpartition("-")[2])):
        return
    for number in _PASSED_ON:
        signal.signal(number, signal.SIG_IGN)  # of a terminal: Snakemake decides what ends when
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for who minds a command
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(_abstract(name))
    listener.listen()
    for library in _LIBRARIES:
        import_module(library)
    from nodewise import cli  # here: who only asks does not need it

    gc.freeze()  # else each command would walk through all that was imported, and copy its pages
    sys.argv = ["nodewise", *_serve(listener)]
    try:
        cli.main()
    except SystemExit as left:
        status = left.code if isinstance(left.code, int) else int(left.code is not None)
        if isinstance(left.code, str):
            print(left.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    else:
        status = 0
    with suppress(OSError):  # of a full disk, the command has said
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)  # to free what was imported, piece by piece, takes a sixth of a second


def _serve(listener: socket.socket) -> list[str]:
    """Fork a process for each request; return its arguments, in that process alone."""
    server = os.getpid()
    while True:
        client, _ = listener.accept()
        if _is_ours(client) and os.fork() == 0:
            listener.close()
            if not end_with(server):
                os._exit(_LOST)
            return _mind(client)
        client.close()


def _mind(client: socket.socket) -> list[str]:
    """Fork the command, return its arguments there; here, pass signals on and tell its status."""
    message, streams, _, _ = socket.recv_fds(client, _LONGEST, 3)
    if not message:  # who asked was killed, or could not send it
        os._exit(_LOST)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    minder = os.getpid()
    if (command := os.fork()) == 0:
        client.close()
        return _become(json.loads(message), streams, minder)
    ended = os.pidfd_open(command)
    poll = select.poll()
    poll.register(ended, select.POLLIN)
    poll.register(client, select.POLLIN)
    while ended not in dict(poll.poll()):
        number = client.recv(1)
        os.kill(command, number[0] if number else signal.SIGTERM)
        if not number:  # who asked was killed
            poll.unregister(client)
    status = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
    with suppress(OSError):
        client.send(bytes([status if status >= 0 else 128 - status]))
    os._exit(0)


def _become(request: dict[str, Any], streams: Sequence[int], minder: int) -> list[str]:
    """Turn this process into the command; return its arguments."""
    for number in _PASSED_ON:
        signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not end_with(minder, signal.SIGTERM):
        os._exit(_LOST)
    os.setpgid(0, 0)  # signals come from who asked, once
    for standard, stream in enumerate(streams):
        os.dup2(stream, standard)
        os.close(stream)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    return list(request["arguments"])


def _abstract(name: str) -> str:
    """Return the address of the socket: one that is no file, so that nothing is left behind."""
    return f"\0{name}"


def _is_ours(peer: socket.socket) -> bool:
    """Tell whether the same user is at the other end: any on this machine can find the name."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.geteuid())


if __name__ == "__main__":
    main()
