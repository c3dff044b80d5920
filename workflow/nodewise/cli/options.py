"""Options and helpers that several commands share."""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.table import Table

    from nodewise.study.config import Config

STEPS = "Steps of the workflow"
"""The panel of `--help` for commands that a rule of the workflow runs.

Each of these commands belongs to one rule. They can also be run by hand.
"""

StudyConfig = Annotated[Path, typer.Option("--config", help="Configuration of the study.")]
Out = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
OutFile = Annotated[Path, typer.Option("--out", help="The file to write.")]
Logs = Annotated[Path, typer.Option(help="Folder for the logs of the workers.")]
Source = Annotated[
    Literal["any", "official"], typer.Option(help="'official': fail instead of using replacements.")
]
KeepRefusal = Annotated[
    bool, typer.Option("--keep-refusal", help="If it cannot be used, write the reason instead.")
]
DataManifest = Annotated[Path, typer.Option(help="manifest.json of the prepared dataset.")]
OwnDataset = Annotated[
    str | None, typer.Option(help="For your own model: a dataset, or path/file.py:function.")
]
WeightsManifest = Annotated[
    Path | None, typer.Option(help="manifest.json of the pretrained weights, if any.")
]
Tables = Annotated[Path, typer.Option(help="Folder of the tables.")]
Calibrated = Annotated[
    list[Path] | None,
    typer.Option("--calibration", help="A file from `nodewise calibrate`; repeatable."),
]
Records = Annotated[
    Path | None, typer.Option(help="Folder of the records; default: results/STUDY/records.")
]
FitFile = Annotated[Path, typer.Argument(help="A file from `nodewise fit`.")]
DEFAULT_NODES = "1-64"
NodeNumbers = Annotated[str, typer.Option(help="Numbers of nodes, such as 64, 1-64 or 1,2,4,8-16.")]
AskedBatch = Annotated[int | None, typer.Option(min=1, help="Examples per worker and step.")]
AskedGlobalBatch = Annotated[
    int | None, typer.Option(min=1, help="Examples per step over all workers.")
]
EpochExamples = Annotated[int | None, typer.Option(min=1, help="Examples per epoch.")]
NodePrice = Annotated[
    str | None,
    typer.Option(
        help="Price of a node per hour (of a device, for curves of devices), such as 2.5 or "
        "'2.5 EUR'; default: costs in node-hours."
    ),
]
Parameters = Annotated[
    float | None, typer.Option(help="Trained parameters of the model, such as 25.6e6.")
]
Payload = Annotated[float | None, typer.Option(help="Bytes of a gradient, in place of parameters.")]
Precision = Annotated[
    str, typer.Option(help="fp32, tf32, fp16, bf16 or amp: gradients travel in 4 or 2 bytes.")
]
WithinNode = Annotated[
    str | None,
    typer.Option(
        help="Link of a device in its node: nvlink1 … nvlink5, nvlink-bridge, pcie3 … pcie5, "
        "pcie3-no-p2p …, a rate (31.5GB/s), or a file of all-reduces."
    ),
]
BetweenNodes = Annotated[
    str | None,
    typer.Option(
        help="Link of a node: 100gbit-rdma, 8x400gbit-rdma, 25gbit-tcp, 400gbit-efa, a rate of "
        "unknown transport (100gbit, 250mbit), or a file of all-reduces."
    ),
]
OnlyLink = Annotated[
    str | None,
    typer.Option(help="The only link: as --between of nodes of one device, or as --within."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def records_of(study: "Config", records: Path | None) -> Path:
    """Return `records`; by default the folder to which the workflow writes those of a study."""
    return records or study.results / "records"


def tell_waiting() -> None:
    """Print that a measurement waits: only one at a time may use the machine."""
    typer.echo("another cell is being measured on this machine; waiting for it")


def print_rows(rows: "Iterable[Mapping[str, object]]") -> None:
    """Print rows as a table; the columns are the keys of the rows."""
    import pandas as pd

    typer.echo(pd.DataFrame(list(rows)).to_string(index=False))


def plain_table(*titles: str, texts: Collection[str]) -> "Table":
    """Return an empty table without borders; all columns but `texts` are right-aligned."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in titles:
        table.add_column(title, justify="left" if title in texts else "right", no_wrap=True)
    return table


def print_json(content: "Mapping[str, Any] | Sequence[Mapping[str, Any]]") -> None:
    """Print content as JSON; its numbers must be finite."""
    import json

    typer.echo(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))


def print_whole(table: "Table") -> None:
    """Print a table; in a narrow terminal its lines wrap, but nothing is cut off."""
    from rich.console import Console

    console = Console()
    unlimited = console.options.update(max_width=10_000)
    console.width = max(console.width, console.measure(table, options=unlimited).maximum)
    console.print(table)
