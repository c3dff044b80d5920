"""List the available models and strategies as tables or JSON. Never imports TensorFlow."""

import json
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from nodewise.cli.options import plain_table
from nodewise.core.units import write_number
from nodewise.models.facts import facts
from nodewise.models.registry import ModelEntry, check_project, registry
from nodewise.results.model_description import Architecture
from nodewise.strategies import STRATEGIES

Row = dict[str, Any]


def rows(batch: int) -> list[Row]:
    """Return a row of facts for each registered model; everything is counted, nothing is timed.

    Raises:
        UserError: a model's file or description is missing or invalid.
    """
    check_project()
    return [_row(name, entry, facts(name), batch) for name, entry in registry().items()]


def _row(name: str, entry: ModelEntry, described: Architecture, batch: int) -> Row:
    return {
        "model": name,
        "title": entry.title,
        "dataset": entry.dataset,
        "input_shape": described.input_shape,
        "trainable": described.trainable,
        "total": described.total,
        "payload_bytes": described.payload_bytes,
        "flops_per_example": described.flops_per_example,
        "training_flops_per_example": described.training_flops_per_example,
        "flops_per_payload_byte": described.flops_per_payload_byte,
        "batch": batch,
        "flops_per_payload_byte_at_batch": batch * described.flops_per_payload_byte,
    }


def table(rows: Sequence[Row]) -> Table:
    """Return the rows of `rows` as a table for a terminal."""
    batch = rows[0]["batch"] if rows else 1
    about = ("Model", "Dataset", "Input")
    sizes = ("Trainable", "Parameters", "Payload", "MFLOP\nforward")
    ratios = ("FLOP/B\nbatch 1", f"FLOP/B\nbatch {batch}")
    shown = plain_table(*about, *sizes, *ratios, texts=about)
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
    """Return an explanation of the numbers in the table of models."""
    return (
        "All counted from layers and shapes, a multiply-add as 2 FLOP.\n"
        "FLOP/B: operations of training per byte of a gradient."
    )


def strategy_rows() -> list[Row]:
    """Return a row for each strategy: its title, its largest number of nodes and its options."""
    return [
        {
            "strategy": name,
            "title": entry.title,
            "max_nodes": entry.max_nodes,
            "options": _options(entry.options.model_json_schema()),
        }
        for name, entry in STRATEGIES.items()
    ]


def _options(schema: Row) -> Row:
    """Return the default and the allowed values of each option in a JSON schema."""
    return {
        name: {"default": option.get("default"), "allowed": _allowed(option)}
        for name, option in schema.get("properties", {}).items()
    }


def _allowed(schema: Row) -> str:
    """Return in words which values the JSON schema of a scalar allows."""
    if "anyOf" in schema:
        return " or ".join(_allowed(one) for one in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return ", ".join(map(str, schema.get("enum", [schema.get("const")])))
    if schema["type"] == "boolean":
        return "true, false"
    if schema["type"] == "null":
        return "null"
    kind = "whole number" if schema["type"] == "integer" else "number"
    words = {"minimum": "at least", "exclusiveMinimum": "more than", "maximum": "at most"}
    limits = [f"{word} {schema[key]:,}" for key, word in words.items() if key in schema]
    return ", ".join([kind, *limits])


def strategy_table(rows: Sequence[Row]) -> Table:
    """Return the rows of `strategy_rows` as a table for a terminal, with one line per option."""
    shown = Table("Strategy", "What it is", "Nodes", "Options", box=SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        nodes = STRATEGIES[row["strategy"]].nodes
        options = [
            f"{name}={json.dumps(about['default'])} ({about['allowed']})"
            for name, about in row["options"].items()
        ]
        shown.add_row(row["strategy"], row["title"], nodes, escape("\n".join(options)))
    return shown
