"""Options and helpers that several commands share."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from nodewise.core.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nodewise.predict.answers import Job

app = typer.Typer(
    name="nodewise", no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)
"""The modules of this package add their commands to it."""
_MOST_ROWS = 1_000
STEPS = "Steps of the workflow"
"""The panel of `--help` for commands that a rule of the workflow runs.

Each of these commands belongs to one rule. They can also be run by hand.
"""

StudyConfig = Annotated[Path, Option("--config", help="Configuration of the study.")]
OwnDataset = Annotated[
    str | None, Option(help="For your own model: a dataset, or path/file.py:function.")
]
FileFormat = Annotated[str | None, Option("--format", help="Default: recognised.")]
FitFile = Annotated[Path, Argument(help="A file from `nodewise fit`, or results/STUDY.")]
NodeNumbers = Annotated[str, Option(help="Numbers of nodes, such as 64, 1-64 or 1,2,4,8-16.")]
AskedBatch = Annotated[int | None, Option(min=1, help="Examples per worker and step.")]
AskedGlobalBatch = Annotated[int | None, Option(min=1, help="Or: all workers together.")]
Batches = Annotated[
    str | None,
    Option(help="Of these per device, such as 16,32,64, the one that reaches the target soonest."),
]
EpochExamples = Annotated[int | None, Option(min=1, help="Examples per epoch.")]
Epochs = Annotated[float, Option(help="Number of epochs.")]
NodePrice = Annotated[
    str | None,
    Option(help="An hour of a node (or device): 2.5 or '2.5 EUR'; default: node-hours."),
]
Deadline = Annotated[str | None, Option(help="Time for the examples: 90s, 30min, 2h, 1d.")]
Budget = Annotated[float | None, Option(help="What they may cost, in units of the price.")]
ConvergesLike = Annotated[
    str | None,
    Option(help="Such a critical batch: resnet, bert, … or a file of measure-noise-scale."),
]
SamplesToTarget = Annotated[
    str | None, Option(help="Your own counts: global batch:examples, as 256:1.9e6,1024:2.2e6.")
]

Parameters = Annotated[float | None, Option(help="Trained parameters, such as 25.6e6.")]
Payload = Annotated[float | None, Option(help="Or: bytes of a gradient.")]
Precision = Annotated[
    str, Option(help="Gradients travel in 4 bytes (fp32, tf32), 2 (fp16, bf16) or either (amp).")
]
PerNode = Annotated[
    int | None,
    Option(min=1, help="Default: as a file says; else 1, or all without a link between nodes."),
]
WithinNode = Annotated[
    str | None,
    Option(
        help="Link of a device in its node: nvlink1 … nvlink5, nvlink-bridge, pcie3 … pcie5, "
        "pcie3-no-p2p …, a rate (31.5GB/s), or a file of all-reduces."
    ),
]
BetweenNodes = Annotated[
    str | None,
    Option(
        help="Link of a node: 100gbit-rdma, 8x400gbit-rdma, 25gbit-tcp, 400gbit-efa, a rate of "
        "unknown transport (100gbit, 250mbit), or a file of all-reduces."
    ),
]
OnlyLink = Annotated[str | None, Option(help="The only link: as --between or as --within.")]
AsJson = Annotated[bool, Option("--json", help="Print JSON instead of a table.")]


def only_options(context: typer.Context, option: str, *others: str) -> None:
    """Refuse options that have no effect beside another one.

    Args:
        context: that of the command.
        option: the option that was given.
        others: what may be given with it, as the command's parameters are called.

    Raises:
        UserError: another option was given.
    """
    for name in context.params:
        source = context.get_parameter_source(name)
        given = source is not None and source.name == "COMMANDLINE"
        if given and name not in (option, *others):
            named = name.replace("_", "-")
            raise UserError(f"--{option}: --{named} has no effect beside it; remove one of them")


def job_of(asked: "Mapping[str, Any]", **more: Any) -> "Job":  # noqa: ANN401
    """Return the job that the options of a command describe; `more` are attributes of it.

    Args:
        asked: all options by their names: the `params` of a command's context.
        more: attributes that go before the options.

    Raises:
        UserError: a price or a duration cannot be read, or a value is not allowed.
    """
    from nodewise.predict.answers import Job
    from nodewise.predict.options import parse_duration, parse_price
    from nodewise.predict.steps_to_accuracy import law_of, parse_counts

    names = ("examples", "epochs", "budget", "watts")
    told: dict[str, Any] = {name: asked.get(name) for name in names} | more
    counts = parse_counts(asked.get("samples_to_target"))
    if steps := law_of(asked.get("converges_like"), counts):
        told |= {"steps": steps, "name": "run"}
    price, currency = parse_price(asked["price"])
    if (deadline := asked.get("deadline")) is not None:
        told["deadline_s"] = parse_duration("deadline", deadline)
    return Job(**told, price=price, currency=currency or "currency")


def print_target(job: "Job", converges_like: str | None) -> None:
    """Print what a larger batch needs: its learning rate, or what decides its examples."""
    from nodewise.predict.steps_to_accuracy import published_laws, rate_exponent

    if job.steps is None:
        laws = published_laws()
        critical = sorted(law.critical_batch for law in laws.values())
        typer.echo(
            "Throughput only: larger batches need more examples, twice as many at "
            f"{critical[0]:,.0f} to {critical[-1]:,.0f} by published models. Give "
            f"--samples-to-target, or --converges-like: {', '.join(laws)}."
        )
    rate = (
        "A larger batch usually needs a larger learning rate: in proportion (SGD, with warm-up) or "
        "by the square root (Adam); the page Time to accuracy has the sources."
    )
    if known := rate_exponent(converges_like) if converges_like else None:
        rate = (
            f"Learning rates of {converges_like}: as the batch to the power of {known[0]:.2f} "
            f"± {known[1]:.2f} ({known[2]} batches). Usual rules: 1 (linear) and 0.5."
        )
    typer.echo(rate)


def print_table(rows: "Iterable[Mapping[str, object]]") -> None:
    """Print rows as a table, whose columns are the keys of the rows; numbers are right-aligned.

    Empty columns are left out. In a narrow terminal lines wrap, but nothing is cut off. Of very
    many rows the first are printed.
    """
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    all_rows, columns = list(rows), dict[str, list[str]]()
    for row in all_rows[:_MOST_ROWS]:
        for title, value in row.items():
            columns.setdefault(title, []).append(str(value))
    columns = {title: cells for title, cells in columns.items() if any(cells)}
    if not columns:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title, cells in columns.items():
        texts = any(cell[:1].isalpha() for cell in cells)
        table.add_column(Text(title), justify="left" if texts else "right", no_wrap=True)
    for row_cells in zip(*columns.values(), strict=True):
        table.add_row(*map(Text, row_cells))
    console = Console()
    unlimited = console.options.update(max_width=10_000)
    console.width = max(console.width, console.measure(table, options=unlimited).maximum)
    console.print(table)
    if len(all_rows) > _MOST_ROWS:
        typer.echo(f"… and {len(all_rows) - _MOST_ROWS:,} more rows")


def print_json(content: "Mapping[str, Any] | Sequence[Mapping[str, Any]]") -> None:
    """Print content as JSON; its numbers must be finite."""
    typer.echo(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))
