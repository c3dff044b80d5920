"""Make the pages of models: what each consists of, computes and communicates."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.models.registry import registry
from nodewise.report.context import ReportContext
from nodewise.report.html import number, text
from nodewise.report.page import Page, model_page, results_page
from nodewise.report.pages import page
from nodewise.report.pages._scaling import largest_and_smallest_batch
from nodewise.report.tables import Column, Table, table
from nodewise.results.model_description import Architecture, Memory

COUNTED = "counted"
LITTLE_BACKWARD = 1.5  # operations of training ÷ forward pass; 2 to 3 if all layers are trained

_SIZES = [
    Column("trainable", "Trainable parameters", "", COUNTED),
    Column("total", "All parameters", "", COUNTED),
    Column("payload_bytes", "Payload", "B", COUNTED),
    Column("flops_per_example", "Forward, per example", "FLOP", COUNTED),
    Column("training_flops_per_example", "Training, per example", "FLOP", COUNTED),
    Column("flops_per_payload_byte", "Training, per byte at batch 1", "FLOP/B", COUNTED),
]
_COMPARED = [
    Column("title", "Model"),
    *(one for one in _SIZES if one.name not in ("total", "flops_per_example")),
    Column("input", "Input"),
    Column("dataset", "Dataset"),
]
_MEMORY = [
    Column("weights_bytes", "Weights", "B", COUNTED),
    Column("gradients_bytes", "Gradients", "B", COUNTED),
    Column("optimizer_bytes", "Optimizer", "B", COUNTED),
    Column("fixed_bytes", "Process, without its examples", "B", "fitted"),
    Column("bytes_per_example", "Activations, per example of the batch", "B", "fitted"),
]
_PEAKS = [
    Column("batch", "Batch"),
    Column("formula", "By the formula", "B", "fitted"),
    Column("measured", "Measured peak", "B", "measured"),
    Column("ratio", "Formula ÷ measured", "×", "fitted"),
]
_LAYERS = [
    Column("name", "Layer"),
    Column("parameters", "Parameters", "", COUNTED),
    Column("flops", "Forward, per example", "FLOP", COUNTED),
    Column("training_flops", "Training, per example", "FLOP", COUNTED),
    Column("kind", "Kind"),
    Column("detail", "Settings"),
    Column("shape", "Output"),
    Column("state", "Trained or frozen"),
    Column("inputs", "Inputs"),
]


@page("models")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page for each described model, and the page that compares them."""
    for name, architecture in study.architectures.items():
        context = _model(study, name, architecture)
        yield Page(model_page(name), "models/model.md.j2", study.model_title(name), context)
    described = sorted(study.architectures.values(), key=lambda one: one.payload_bytes)
    context = {
        "smallest": described[0] if described else None,
        "largest": described[-1] if described else None,
        "table": _compared(study) if described else None,
        "figures": study.pick("models"),
    }
    yield Page(
        *("models/index.html", "models/index.md.j2", "Models", context),
        figures=True,
        contents=False,
    )


def _compared(study: ReportContext) -> Table:
    """Return the models side by side, the one that computes most per byte first."""
    link = Markup('<a href="{}">{}</a>')
    rows = pd.DataFrame(
        {
            "title": link.format(model_page(name).split("/")[-1], text(study.model_title(name))),
            "dataset": study.dataset_title(_dataset(study, name)),
            "input": input_in_words(one),
            **{column.name: getattr(one, column.name) for column in _SIZES},
        }
        for name, one in study.architectures.items()
    )
    return table(rows.sort_values("flops_per_payload_byte", ascending=False), _COMPARED)


def _model(study: ReportContext, name: str, architecture: Architecture) -> dict[str, Any]:
    dataset, frozen = _dataset(study, name), architecture.total - architecture.trainable
    rows, cells = study.compared, study.tables["cells"]
    measured = ((cells["model"] == name) & (cells["dataset"] == dataset)).any()
    backward, memory = _training_to_forward(architecture), architecture.memory
    return {
        "name": name,
        "about": architecture.about,
        "dataset": study.dataset_title(dataset),
        "results": results_page(name, dataset) if measured else None,
        "ends": largest_and_smallest_batch(rows[rows["model"] == name]),
        "input": input_in_words(architecture),
        "sizes": _facts(architecture, _SIZES),
        "trainable": number(architecture.trainable, "", COUNTED),
        "memory": _facts(memory, _MEMORY) if memory else [],
        "peaks": table(_peaks(memory), _PEAKS) if memory else None,
        "ratio": number(architecture.flops_per_payload_byte, "FLOP/B", COUNTED),
        "backward": number(backward, "×", COUNTED) if backward else None,
        "payload": number(architecture.payload_bytes, "B", COUNTED),
        "frozen": number(frozen, "", COUNTED) if frozen else None,
        "little_backward": backward is not None and backward < LITTLE_BACKWARD,
        "uncounted": sorted({kind for layer in architecture.layers for kind in layer.uncounted}),
        "layers": table(_layers(architecture), _LAYERS),
        "file": f"models/{name}.json",
    }


def _dataset(study: ReportContext, model: str) -> str:
    """Return the dataset of a model; for a user's own model, the one the study trained it on."""
    if model in registry():
        return registry()[model].dataset
    cells = study.tables["cells"]
    return str(cells.loc[cells["model"] == model, "dataset"].iloc[0])


def _training_to_forward(architecture: Architecture) -> float | None:
    """Return the ratio of the operations of training to those of a forward pass.

    None is returned if no operations of the forward pass were counted.
    """
    forward = architecture.flops_per_example
    return architecture.training_flops_per_example / forward if forward else None


def _facts(of: Architecture | Memory, columns: Sequence[Column]) -> list[tuple[str, object]]:
    """Return the title of each column with the value of `of` under the column's name."""
    return [
        (column.title, number(getattr(of, column.name), str(column.unit), str(column.kind)))
        for column in columns
    ]


def _peaks(memory: Memory) -> pd.DataFrame:
    """Return the peak memory of a training process by batch: by the formula and measured."""
    measured = memory.measured
    rows = pd.DataFrame({"batch": list(measured), "measured": list(measured.values())})
    formula = [memory.peak_bytes(batch) for batch in measured]
    return rows.assign(formula=formula, ratio=lambda rows: rows["formula"] / rows["measured"])


def _layers(architecture: Architecture) -> pd.DataFrame:
    return pd.DataFrame(
        layer.model_dump()
        | {
            "shape": shape_in_words(layer.output_shape),
            "state": layer.state,
            "inputs": ", ".join(layer.inputs),
        }
        for layer in architecture.layers
    )


def input_in_words(architecture: Architecture) -> str:
    """Return the shape of one example in words; inputs of an embedding are called tokens."""
    if not architecture.input_shape:
        return "of several parts or sizes"
    embeds = any("Embedding" in layer.kind for layer in architecture.layers)
    shape = shape_in_words(architecture.input_shape)
    return f"{shape} tokens" if embeds else shape


def shape_in_words(shape: Sequence[int]) -> str:
    """Return a shape in words, such as `28×28×1`."""
    return "×".join(map(str, shape))
