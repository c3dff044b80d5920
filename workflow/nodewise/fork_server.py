"""Commands of the workflow are forked from a process that imported their libraries.

Each step from records to the site is a command of its own, and half of its time would be pandas,
SciPy and Altair being imported; each cell is one, and would wait for TensorFlow. A run of the
workflow starts a process for either kind that imports these once, and ends with it. A command that
finds it has itself forked there: in its own folder and environment, on its own standard streams.
One that finds none runs as ever.
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
from collections.abc import Iterator, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from nodewise.parents import end_with
from nodewise.runs import end_with_workflow

COMMANDS = {
    "report": {
        *("build-tables", "fit-overhead", "judge-overhead", "draw-charts", "draw-pictures"),
        *("render-cells", "render-pages", "build-site"),
    },
    "measure": {"calibrate", "measure-cell", "measure-noise-scale", "describe-model"},
}
_FIRST = ("nodewise.published", "nodewise.tables", "pyarrow.parquet", "pandas.io.parsers")
_THEN = (  # what later commands of a run need, in small pieces: the first waits for one to be done
    *("scipy.linalg", "nodewise.views", "nodewise.overhead.study"),
    *("jsonschema", "altair.expr", "altair", "nodewise.charts", "nodewise.pages"),
    *("mkdocs.commands.build", "nodewise.site"),
    *("pymdownx.superfences", "material.plugins.search.plugin"),
)
_MEASURING = ("nodewise.config", "nodewise.inputs", "nodewise.train", "nodewise.data_service")
ADDRESS = "NODEWISE_FORK_SERVER"  # where a run has its servers
ASKED_BY = "NODEWISE_ASKED_BY"  # of a command that is forked: the process in whose place it runs
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_LONGEST = 2**20  # bytes of a request: arguments and environment
_LOST = 1  # exit status of a command whose server is gone


def start(kind: str) -> None:
    """Start the server of a run for one kind of commands; it ends with this process.

    The commands that this process runs find it. To be called in the main thread, with which the
    server ends.
    """
    address = os.environ[ADDRESS] = f"nodewise-{os.getpid()}"
    subprocess.Popen(
        [sys.executable, "-m", "nodewise.fork_server", address, kind], stdin=subprocess.DEVNULL
    )


def run_there(arguments: Sequence[str]) -> int | None:
    """Have the server run `nodewise ARGUMENTS`, in this process's place; None if there is none.

    Returns its exit status; 128 and the number of the signal if one ended it, as shells do.
    """
    address = os.environ.pop(ADDRESS, "")
    kind = next((kind for kind, names in COMMANDS.items() if names.intersection(arguments[:1])), "")
    if not address or not kind:
        return None
    end_with_workflow()
    environment = os.environ | {ASKED_BY: str(os.getpid())}
    request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": environment}
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        server.connect(_abstract(address, kind))
        if not _is_ours(server):
            return None
        socket.send_fds(server, [json.dumps(request).encode()], [0, 1, 2])
        if not server.recv(1):  # it could not import its libraries: by itself, the command says why
            return None
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

    Its arguments are an address that ends with the number of the workflow's process, and a kind of
    commands.
    """
    address, kind = sys.argv[1:]
    if not end_with(int(address.rpartition("-")[2])):
        return
    for number in _PASSED_ON:
        signal.signal(number, signal.SIG_IGN)  # of a terminal: Snakemake decides what ends when
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for who minds a command
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    listener.bind(_abstract(address, kind))
    listener.listen()
    from nodewise import cli  # here: who only asks does not need it

    imports = _IMPORT[kind]()
    next(imports)
    sys.argv = ["nodewise", *_serve(listener, imports)]
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


def _import_for_reports() -> Iterator[None]:
    """Import, and yield where commands may be forked: later ones need what is still missing."""
    # matrices here are small: fits that run side by side would wait for each other's threads
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    gc.disable()  # a command would walk through all that was imported, and is soon over
    for library in _FIRST:
        import_module(library)
    yield
    for library in _THEN:
        import_module(library)
        yield
    from nodewise.pages import compile_templates

    compile_templates(Path("site/templates"))
    yield
    from mkdocs.exceptions import MkDocsException

    from nodewise.mkdocs_pages import theme_templates

    with suppress(MkDocsException):  # left to who builds a site
        theme_templates()
    yield


def _import_for_cells() -> Iterator[None]:
    """Import TensorFlow and what trains, then yield."""
    from nodewise.runner import settle_environment
    from nodewise.tensorflow_import import import_tensorflow

    settle_environment()
    errors = os.dup(2)
    with Path(os.devnull).open("wb") as nowhere:  # TensorFlow says what it did not find
        os.dup2(nowhere.fileno(), 2)
        try:
            import_tensorflow()
        finally:
            os.dup2(errors, 2)
            os.close(errors)
    for library in _MEASURING:
        import_module(library)
    gc.freeze()  # else each command would walk through all that was imported, and copy its pages
    yield


_IMPORT = {"report": _import_for_reports, "measure": _import_for_cells}


def _serve(listener: socket.socket, imports: Iterator[None]) -> list[str]:
    """Fork a process for each request; return its arguments, in that process alone.

    `imports` goes on importing, as long as nobody asks.
    """
    server = os.getpid()
    asked = select.poll()
    asked.register(listener, select.POLLIN)
    while True:
        while not asked.poll(0) and next(imports, imports) is None:
            pass
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
    with suppress(OSError):
        client.send(b"\0")  # heard
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


def _abstract(address: str, kind: str) -> str:
    """Return the name of the socket: one that is no file, so that nothing is left behind."""
    return f"\0{address}-{kind}"


def _is_ours(peer: socket.socket) -> bool:
    """Tell whether the same user is at the other end: any on this machine can find the name."""
    credentials = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.geteuid())


if __name__ == "__main__":
    main()
