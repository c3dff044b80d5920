"""Cells, each measured alone on the whole machine.

in:    a prepared dataset; pretrained weights if the model has any; Horovod, if the cell trains with
       it; the files of its model and its strategy
out:   results/<study>/records/<cell>.json, also when the cell failed
steps: measure_cell
"""

# Snakemake measures in this order: repeats one after the other, nodes and batches mixed.
ORDER = {cell: len(CELLS) - place for place, cell in enumerate(CELLS)}


def cell_of(wildcards):
    """Return the cell that a record is asked of."""
    if wildcards.cell not in CELLS:
        raise WorkflowError(f"{CONFIG}: declares no cell {wildcards.cell!r}")
    return CELLS[wildcards.cell]


def model_file(wildcards):
    """Return the files that build a cell's model."""
    cell = cell_of(wildcards)
    return source_files(cell.build) if cell.build else f"models/{cell.model}.py"


def weights_manifest(model):
    """Return the manifest of the weights that a model starts from; none of a user's own."""
    weights = weights_of(model)
    return [f"results/weights/{weights}/manifest.json"] if weights else []


def library(wildcards):
    """Return the manifest of what a cell's strategy trains with, if it has to be built."""
    built = cell_of(wildcards).strategy == "horovod"
    return ["results/horovod/manifest.json"] if built else []


rule measure_cell:
    input:
        manifest=lambda w: f"results/datasets/{cell_of(w).dataset}/manifest.json",
        weights=lambda w: weights_manifest(cell_of(w).model),
        library=library,
        model=model_file,
        strategy=lambda w: package(f"strategies/{cell_of(w).strategy}.py"),
    output:
        RESULTS + "/records/{cell}.json",
    log:
        RESULTS + "/logs/{cell}/cell.log",
    priority: lambda w: ORDER.get(w.cell, 0)
    threads: workflow.cores
    params:
        # a changed cell is measured again, but not for another time limit, nor with other cells
        declaration=lambda w: CELLS[w.cell].declaration,
        measures=MEASURES,
        versions=VERSIONS,
        weights=lambda w, input: " ".join(f"--weights {path}" for path in input.weights),
        logs=lambda w: f"{RESULTS}/logs/{w.cell}",
    shell:
        "nodewise measure-cell {wildcards.cell:q} --config {CONFIG:q}"
        " --manifest {input.manifest:q} {params.weights} --out {output:q} --logs {params.logs:q}"
        " > {log:q} 2>&1"
