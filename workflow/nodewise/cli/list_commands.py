"""List the available models and strategies as tables. Never imports TensorFlow."""

import json

from rich.markup import escape
from rich.table import Table

from nodewise.cli.options import plain_table
from nodewise.core.units import write_number
from nodewise.models.facts import facts
from nodewise.models.registry import check_project, registry
from nodewise.strategies import STRATEGIES


def models_table(batch: int) -> Table:
    """Return a table of the registered models; everything is counted, nothing is timed.

    Args:
        batch: the batch per worker at which operations are compared with the bytes of a gradient.

    Raises:
        UserError: a model's file or description is missing or invalid.
    """
    check_project()
    about = ("Model", "Dataset", "Input")
    sizes = ("Trainable", "Parameters", "Payload", "MFLOP\nforward")
    shown = plain_table(*about, *sizes, f"FLOP/B\nbatch {batch}", texts=about)
    for name, entry in registry().items():
        described = facts(name)
        shown.add_row(
            escape(name),
            escape(entry.dataset),
            "×".join(map(str, described.input_shape)),
            f"{described.trainable:,}",
            f"{described.total:,}",
            write_number(described.payload_bytes, "B"),
            f"{described.flops_per_example / 1e6:,.3f}",
            f"{batch * described.flops_per_payload_byte:,.0f}",
        )
    return shown


def strategies_table() -> Table:
    """Return a table of the strategies, with one line per option and its default."""
    titles = ("Strategy", "What it is", "Nodes", "Options")
    shown = plain_table(*titles, texts=titles)
    for name, entry in STRATEGIES.items():
        defaults = entry.options().model_dump()
        options = [f"{option}={json.dumps(value)}" for option, value in defaults.items()]
        shown.add_row(name, entry.title, entry.nodes, escape("\n".join(options)))
    return shown
