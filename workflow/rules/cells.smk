"""Cells, each measured alone on the whole machine.

in:    a prepared dataset; pretrained weights if the model has any; Horovod, if the cell trains with
       it; the sources that decide what a cell does
out:   results/<study>/records/<cell>.json, also when the cell failed
steps: measure_cell
"""

# Beside what cells run: for the doctor, and for what a model is (see CUTS).
NOT_OF_CELLS = sources("clusters/permits.py", "measure/describe.py")
# What every cell runs. A model's or a strategy's own file is an input of its own cells only.
SHARED_SOURCES = sources(
    "cells.py",
    "records.py",
    "runner.py",
    "train.py",
    "batches.py",
    "data_service.py",
    "datasets/sharding.py",
    "places.py",
    "recipes.py",
    "own.py",
    "gates.py",
    "strategies/base.py",
    "clusters/*.py",
    "measure/*.py",
    but=NOT_OF_CELLS,
)


# Of the folder of strategies, these say which there are, for all of them.
REGISTRY = sources("strategies/__init__.py", "strategies/options.py")
# These say where a model is cut into stages.
CUTS = sources("architecture.py", "flops.py", "measure/describe.py")


def declared(wildcards):
    """Return the cell that a record is asked of."""
    if wildcards.cell not in CELLS:
        raise WorkflowError(f"{CONFIG}: declares no cell {wildcards.cell!r}")
    return CELLS[wildcards.cell]


def strategy_files(strategy):
    """Return the file of a strategy and those that it needs and that not all cells have."""
    folder = "workflow/nodewise/strategies/"
    return [
        file
        for file in needed(f"strategies/{strategy}.py")
        if file in CUTS or (file.startswith(folder) and file not in REGISTRY)
    ]


def model_file(wildcards):
    """Return the files that build a cell's model."""
    cell = declared(wildcards)
    return source_files(cell.build) if cell.build else f"models/{cell.model}.py"


def weights_manifest(model):
    """Return the manifest of the weights that a model starts from; none of a user's own."""
    weights = weights_of(model)
    return [f"results/weights/{weights}/manifest.json"] if weights else []


def library(wildcards):
    """Return the manifest of what a cell's strategy trains with, if it has to be built."""
    built = declared(wildcards).strategy == "horovod"
    return ["results/horovod/manifest.json"] if built else []


rule measure_cell:
    input:
        manifest=lambda w: f"results/datasets/{declared(w).dataset}/manifest.json",
        weights=lambda w: weights_manifest(declared(w).model),
        library=library,
        model=model_file,
        strategy=lambda w: strategy_files(declared(w).strategy),
        shared=SHARED_SOURCES,
    output:
        RESULTS + "/records/{cell}.json",
    log:
        RESULTS + "/logs/{cell}/cell.log",
    priority: lambda w: ORDER.get(w.cell, 0)
    threads: workflow.cores
    params:
        # a cell whose declaration changed is measured again, for another time limit it is not;
        # other cells of the config are not
        declaration=lambda w: CELLS[w.cell].declaration,
        versions=lambda w: versions(),  # likewise
        weights=lambda w, input: " ".join(f"--weights {path}" for path in input.weights),
        logs=lambda w: f"{RESULTS}/logs/{w.cell}",
    shell:
        "nodewise measure-cell {wildcards.cell:q} --config {CONFIG:q}"
        " --manifest {input.manifest:q} {params.weights} --out {output:q} --logs {params.logs:q}"
        " > {log:q} 2>&1"
