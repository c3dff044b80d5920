"""The models that there are, as a table for the terminal or as JSON. Never imports TensorFlow."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from nodewise.architecture import read_architectures
from nodewise.models import registry
from nodewise.quantities import write_number

Row = dict[str, Any]


def rows(descriptions: Path, batch: int) -> list[Row]:
    """Return what is known of each model of the registry; all of it is counted, nothing is timed.

    Operations of training are those of its description, `descriptions/<model>.json`; where it was
    not described yet they are None, and so are the operations per byte of payload that a worker
    computes, for one example and for a batch of `batch`.

    Raises:
        UserError: the registry or a description is misfit.
    """
    described = read_architectures(
        descriptions, [name for name in registry() if (descriptions / f"{name}.json").is_file()]
    )
    found = []
    for name, entry in registry().items():
        one = described.get(name)
        ratio = one.flops_per_payload_byte if one else None
        found.append(
            {
                "model": name,
                "title": entry.title,
                "dataset": entry.dataset,
                "input_shape": entry.input_shape,
                "trainable": entry.trainable,
                "total": entry.total,
                "payload_bytes": entry.payload_bytes,
                "flops_per_example": entry.flops_per_example,
                "training_flops_per_example": one.training_flops_per_example if one else None,
                "flops_per_payload_byte": ratio,
                "batch": batch,
                "flops_per_payload_byte_at_batch": batch * ratio if ratio is not None else None,
            }
        )
    return found


def table(rows: Sequence[Row]) -> Table:
    """Return the rows of `rows` for a terminal."""
    batch = rows[0]["batch"] if rows else 1
    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for title in ("Model", "Dataset", "Input"):
        shown.add_column(title, no_wrap=True)
    ratios = ("FLOP/B\nbatch 1", f"FLOP/B\nbatch {batch}")
    for title in ("Trainable", "Parameters", "Payload", "MFLOP\nforward", *ratios):
        shown.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        shown.add_row(
            escape(row["model"]),
            escape(row["dataset"]),
            "×".join(map(str, row["input_shape"])),
            f"{row['trainable']:,}",
            f"{row['total']:,}",
            write_number(row["payload_bytes"], "B"),
            f"{row['flops_per_example'] / 1e6:,.3f}",
            _ratio(row["flops_per_payload_byte"]),
            _ratio(row["flops_per_payload_byte_at_batch"]),
        )
    return shown


def _ratio(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}"


def legend(rows: Sequence[Row]) -> str:
    """Return what the numbers are, and what to do about those that are missing."""
    told = (
        "All counted from layers and shapes, a multiply-add as 2 FLOP.\n"
        "FLOP/B: operations of training per byte of a gradient."
    )
    unknown = [row["model"] for row in rows if row["flops_per_payload_byte"] is None]
    if not unknown:
        return told
    name = unknown[0]
    return (
        f"{told}\n–: not described yet; to do so: "
        f"nodewise describe-model {name} --out results/models/{name}.json"
    )
