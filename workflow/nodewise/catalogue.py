"""The models that there are, as a table for the terminal or as JSON. Never imports TensorFlow."""

from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from nodewise.models import registry
from nodewise.quantities import write_number

Row = dict[str, Any]


def rows(batch: int) -> list[Row]:
    """Return what is known of each model of the registry; all of it is counted, nothing is timed.

    Raises:
        UserError: the registry is misfit.
    """
    return [
        {
            "model": name,
            "title": entry.title,
            "dataset": entry.dataset,
            "input_shape": entry.input_shape,
            "trainable": entry.trainable,
            "total": entry.total,
            "payload_bytes": entry.payload_bytes,
            "flops_per_example": entry.flops_per_example,
            "training_flops_per_example": entry.training_flops_per_example,
            "flops_per_payload_byte": entry.flops_per_payload_byte,
            "batch": batch,
            "flops_per_payload_byte_at_batch": batch * entry.flops_per_payload_byte,
        }
        for name, entry in registry().items()
    ]


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
            f"{row['flops_per_payload_byte']:,.1f}",
            f"{row['flops_per_payload_byte_at_batch']:,.0f}",
        )
    return shown


def legend() -> str:
    """Return what the numbers are."""
    return (
        "All counted from layers and shapes, a multiply-add as 2 FLOP.\n"
        "FLOP/B: operations of training per byte of a gradient."
    )
