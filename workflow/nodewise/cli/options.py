"""Options and helpers that several commands share."""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from nodewise.core.errors import UserError

app = typer.Typer(
    name="nodewise", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
"""The modules of this package add their commands to it."""
_MOST_ROWS = 1_000
_WIDTH = 10_000  # of tables: in a narrow terminal lines wrap, but nothing is cut off
WORKFLOW = "Steps of the workflow"
"""The panel of `--help` for commands that rules of the workflow run. People can run them, too."""

StudyConfig = Annotated[Path, Option("--config", help="Configuration of the study.")]
OwnDataset = Annotated[str | None, Option(help="Of your own model: name or path/file.py:function.")]
FileFormat = Annotated[str | None, Option("--format", help="Default: recognised.")]
FitFile = Annotated[Path, Argument(help="A file from `nodewise fit`, or results/STUDY.")]
NodeNumbers = Annotated[str, Option(help="Numbers of nodes, such as 64, 1-64 or 1,2,4,8-16.")]
AskedBatch = Annotated[int | None, Option(min=1, help="Examples per worker and step.")]
AskedGlobalBatch = Annotated[int | None, Option(min=1, help="Or: all workers together.")]
Batches = Annotated[str | None, Option(help="Such as 16,32,64 a device: the soonest is taken.")]
EpochExamples = Annotated[float | None, Option(help="Examples per epoch, such as 1.28e6.")]
Epochs = Annotated[float, Option(help="Number of epochs.")]
NodePrice = Annotated[str | None, Option(help="Of one node- or device-hour: 2.5 or '2.5 EUR'.")]
Deadline = Annotated[str | None, Option(help="Time for the examples: 90s, 30min, 2h, 1d.")]
Budget = Annotated[float | None, Option(help="What they may cost, in units of the price.")]
ConvergesLike = Annotated[str | None, Option(help="resnet, bert, … or a file of a noise scale.")]
SamplesToTarget = Annotated[str | None, Option(help="Global batch:examples, as 256:2e6,1024:3e6.")]
Parameters = Annotated[float | None, Option(help="Trained parameters, such as 25.6e6.")]
Precision = Annotated[str | None, Option(help="fp32 (default), tf32: 4 bytes; amp, fp16, bf16.")]
PerNode = Annotated[int | None, Option(min=1, help="Default: a file's; 1 with --between, else all")]
WithinNode = Annotated[str | None, Option(help="Link of a device in its node, such as nvlink3.")]
BetweenNodes = Annotated[str | None, Option(help="Link of a node, such as 100gbit-rdma.")]
OnlyLink = Annotated[str | None, Option(help="The only link: as --between or as --within.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON instead of a table.")]


def only_options(context: typer.Context, option: str, *others: str) -> None:
    """Refuse all options of a command except `option`, which was given, and `others`.

    Raises:
        UserError: another option was given, too.
    """
    for name in context.params:
        source = context.get_parameter_source(name)
        if source and source.name == "COMMANDLINE" and name not in (option, *others):
            named = name.replace("_", "-")
            raise UserError(f"--{option}: --{named} has no effect beside it; remove one of them")


def run_command(*words: str) -> None:
    """Run another command of nodewise, which prints only its errors and ends with this process.

    It has a process of its own, because a process that starts workers must neither have started
    threads nor have used TensorFlow.

    Raises:
        SystemExit: it failed.
    """
    command = ["setpriv", "--pdeathsig", "TERM", sys.executable, "-m", "nodewise", *words]
    if code := subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        raise SystemExit(code)


def print_table(rows: Iterable[Mapping[str, object]]) -> None:
    """Print rows as a table, whose columns are the keys of the rows; numbers are right-aligned.

    Empty columns are left out. Of very many rows the first are printed.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    all_rows = list(rows)
    shown = all_rows[:_MOST_ROWS]
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    columns = []
    for title in dict.fromkeys(title for row in shown for title in row):
        cells = [str(row.get(title, "")) for row in shown]
        if any(cells):
            texts = any(cell[:1].isalpha() for cell in cells)
            table.add_column(Text(title), justify="left" if texts else "right", no_wrap=True)
            columns.append(cells)
    for row_cells in zip(*columns, strict=True):
        table.add_row(*map(Text, row_cells))
    if columns:
        Console(width=_WIDTH).print(table)
    if len(all_rows) > _MOST_ROWS:
        typer.echo(f"… and {len(all_rows) - _MOST_ROWS:,} more rows")


def print_json(content: Mapping[str, Any] | Sequence[Mapping[str, Any]]) -> None:
    """Print content as JSON; its numbers must be finite."""
    typer.echo(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))
