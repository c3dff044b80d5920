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
from nodewise.cli import explain, forecast, measure, predict, prepare, study, tables
from nodewise.core.errors import Terminated, UserError, one_line, what_to_mend

_INTERRUPTED = 130  # the exit code of shells after Ctrl-C
_ENDED = {_INTERRUPTED: "interrupted", 143: "terminated"}
"""What is said of a command that a signal ended, by exit code."""
_UNIX = {"fcntl", "grp", "pwd", "resource", "termios"}
_MEASURE = {"keras", "mpi4py", "PIL", "pooch", "psutil", "pyroute2", "requests", "tensorflow"}
_STUDY = {"altair", "jinja2", "markupsafe", "mkdocs", "pyarrow", "snakemake", "vl_convert"}
"""Modules that only some commands need, and that come with an extra."""

app = typer.Typer(
    name="nodewise",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for commands in (study, prepare, measure, predict, forecast, explain, tables):
    app.add_typer(commands.app)


def _tell_version(asked: bool) -> None:
    if asked:
        typer.echo(f"nodewise {__version__}")
        raise typer.Exit


@app.callback()
def about(
    *, version: Annotated[bool, typer.Option(callback=_tell_version, is_eager=True)] = False
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
        _complain(f"KERAS_BACKEND={backend} is ignored: what is measured here is TensorFlow")
    try:
        sys.exit(app(standalone_mode=False))
    except typer.TyperException as error:  # of the command line; it has no message after its help
        if mistake := error.format_message().replace("Value error, ", ""):
            _complain(f"{one_line(mistake.rstrip('.'))}; --help shows what is allowed")
        sys.exit(2)
    except (UserError, OSError) as error:
        message = what_to_mend(error) if isinstance(error, OSError) else str(error)
        if message is None:
            raise
        _complain(one_line(message))
        sys.exit(2)
    except ImportError as error:
        if (message := _missing(error)) is None:
            raise
        _complain(message)
        sys.exit(2)
    except (SystemExit, KeyboardInterrupt) as ended:
        code = ended.code if isinstance(ended, SystemExit) else _INTERRUPTED
        if not isinstance(code, int) or code not in _ENDED:
            raise
        _complain(_ENDED[code])
        sys.exit(code)


def _missing(error: ImportError) -> str | None:
    """Return how to install the module that an error names; None if it comes with no extra."""
    module = (error.name or "").partition(".")[0]
    if module in _UNIX:
        return "this command needs Linux"
    if module not in _MEASURE | _STUDY:
        return None
    extra = "study" if module in _STUDY else "measure"
    return f"{module} is not installed; run in the clone: pip install '.[{extra}]'"


def _complain(text: str) -> None:
    try:
        print(f"nodewise: {text}", file=sys.stderr, flush=True)
        sys.stdout.flush()
    # A message cannot be written to a full disk either; Python must not try again on exit.
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.dup2(nowhere, sys.stderr.fileno())
