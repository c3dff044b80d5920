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
from nodewise.report.pages._scaling import first_figure, largest_and_smallest_batch
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
]
_LAYERS = [
    Column("name", "Layer"),
    Column("parameters", "Parameters", "", COUNTED),
    Column("training_flops", "Training, per example", "FLOP", COUNTED),
    Column("kind", "Kind"),
    Column("detail", "Settings"),
    Column("shape", "Output"),
    Column("state", "Trained or frozen"),
]


@page("models")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page for each described model, and the page that compares them."""
    for name, architecture in study.architectures.items():
        context = _model(study, name, architecture)
        yield Page(model_page(name), "models/model.md.j2", study.model_title(name), context, True)
    described = sorted(study.architectures.values(), key=lambda one: one.payload_bytes)
    context = {
        "smallest": described[0] if described else None,
        "largest": described[-1] if described else None,
        "table": _compared(study) if described else None,
    }
    yield Page("models/index.html", "models/index.md.j2", "Models", context, contents=False)


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
    ends = largest_and_smallest_batch(study.compared[study.compared["model"] == name])
    of = {axis: ends[0][axis] for axis in ("experiment", "line")} if ends else {}
    cells = study.tables["cells"]
    measured = ((cells["model"] == name) & (cells["dataset"] == dataset)).any()
    forward, memory = architecture.flops_per_example, architecture.memory
    backward = architecture.training_flops_per_example / forward if forward else None
    return {
        "name": name,
        "about": architecture.about,
        "dataset": study.dataset_title(dataset),
        "results": results_page(name, dataset) if measured else None,
        "ends": ends,
        "figures": first_figure(study, "speedup", "strategies", "time", "fit", model=name, **of),
        "input": input_in_words(architecture),
        "sizes": _facts(architecture, _SIZES),
        "trainable": number(architecture.trainable, "", COUNTED),
        "memory": _facts(memory, _MEMORY) if memory else [],
        "peaks": table(
            [
                {"batch": batch, "formula": memory.peak_bytes(batch), "measured": peak}
                for batch, peak in memory.measured.items()
            ],
            _PEAKS,
        )
        if memory
        else None,
        "ratio": number(architecture.flops_per_payload_byte, "FLOP/B", COUNTED),
        "backward": number(backward, "×", COUNTED) if backward else None,
        "payload": number(architecture.payload_bytes, "B", COUNTED),
        "frozen": number(frozen, "", COUNTED) if frozen else None,
        "little_backward": backward is not None and backward < LITTLE_BACKWARD,
        "uncounted": sorted({kind for layer in architecture.layers for kind in layer.uncounted}),
        "layers": table(
            [
                layer.model_dump()
                | {"shape": shape_in_words(layer.output_shape), "state": layer.state}
                for layer in architecture.layers
            ],
            _LAYERS,
        ),
        "file": f"models/{name}.json",
    }


def _dataset(study: ReportContext, model: str) -> str:
    """Return the dataset of a model; for a user's own model, the one the study trained it on."""
    if model in registry():
        return registry()[model].dataset
    cells = study.tables["cells"]
    return str(cells.loc[cells["model"] == model, "dataset"].iloc[0])


def _facts(of: Architecture | Memory, columns: Sequence[Column]) -> list[tuple[str, object]]:
    """Return the title of each column with the value of `of` under the column's name."""
    return [
        (column.title, number(getattr(of, column.name), str(column.unit), str(column.kind)))
        for column in columns
    ]


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
