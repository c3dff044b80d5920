"""The command line: `nodewise COMMAND …`.

The modules of this package contain the commands. Each command imports what it needs only when it
runs, so that `--help` is fast and the reporting commands do not load TensorFlow.
"""

import os
import signal
import sys
from typing import Annotated

import typer

from nodewise import __version__
from nodewise.cli import forecast, measure, predict, study  # noqa: F401
from nodewise.cli.options import app
from nodewise.core.errors import Terminated, UserError, one_line, what_to_mend

_ENDED = {130: "interrupted", 143: "terminated"}  # exit codes of shells after SIGINT, SIGTERM
_UNIX = {"fcntl", "grp", "pwd", "resource", "termios"}
_EXTRAS = {
    "measure": {"keras", "mpi4py", "PIL", "pooch", "psutil", "pyroute2", "requests", "tensorflow"},
    "study": {"altair", "jinja2", "markupsafe", "mkdocs", "pyarrow", "snakemake", "vl_convert"},
}
"""Modules that only some commands need, by the extra that they come with."""


def _tell(asked: bool) -> None:
    if asked:
        typer.echo(f"nodewise {__version__}")
        raise typer.Exit


@app.callback()
def about(
    *, version: Annotated[bool, typer.Option("--version", callback=_tell, is_eager=True)] = False
) -> None:
    """How many nodes should train this model, with which strategy, and at what cost?"""


def main() -> None:
    """Run the command line.

    An error that the user can fix, such as an unknown option, is printed as one line on stderr, and
    the exit code is 2. After Ctrl-C the exit code is 130, after SIGTERM 143.
    """
    signal.signal(signal.SIGTERM, Terminated.by)
    # Fits solve small systems: more threads of NumPy would only take time from other processes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    backend = os.environ.get("KERAS_BACKEND") or "tensorflow"
    os.environ["KERAS_BACKEND"] = "tensorflow"  # a strategy of another backend sets it again
    measures = any(word.partition("=")[0] in ("plan", "--model") for word in sys.argv[1:])
    followed = ("tensorflow", "jax") if sys.argv[1:2] == ["forecast"] else ("tensorflow",)
    if measures and backend not in followed:
        _complain(f"KERAS_BACKEND={backend} is ignored: the strategy decides (keras_jax uses JAX)")
    try:
        sys.exit(app(standalone_mode=False))
    except (typer.TyperException, UserError, OSError, ImportError) as error:
        message = _what_to_do(error)
        if message is None:
            raise
        if message:
            _complain(one_line(message))
        sys.exit(2)
    except (SystemExit, KeyboardInterrupt) as ended:
        code = getattr(ended, "code", 130)
        if code in _ENDED:
            _complain(_ENDED[code])
        sys.exit(code)


def _what_to_do(error: Exception) -> str | None:
    """Return what the user can mend; None if nothing, an empty text if help was printed."""
    if isinstance(error, typer.TyperException):  # a mistake in the command line
        mistake = error.format_message().replace("Value error, ", "").rstrip(".")
        return mistake and f"{mistake}; --help shows what is allowed"
    if isinstance(error, OSError):
        return what_to_mend(error)
    if not isinstance(error, ImportError):
        return str(error)
    module = (error.name or "").partition(".")[0]
    if module in _UNIX:
        return "this command needs Linux"
    extra = next((name for name, modules in _EXTRAS.items() if module in modules), None)
    return extra and f"{module} is not installed; run in the clone: pip install '.[{extra}]'"


def _complain(text: str) -> None:
    try:
        print(f"nodewise: {text}", file=sys.stderr, flush=True)
        sys.stdout.flush()
    except OSError:  # as on a full disk; Python must not try again to write what is left
        os._exit(2)
