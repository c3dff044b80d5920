"""Cells, each measured alone on the whole machine, or on nodes of its own.

in:    a prepared dataset; pretrained weights if the model has any; Horovod, if the cell trains with
       it; the files of its model and its strategy
out:   results/<study>/records/<cell>.json, also when the cell failed
steps: measure_cell
"""

import math

from nodewise.strategies import STRATEGIES

# Snakemake measures in this order: repeats one after the other, nodes and batches mixed.
ORDER = {cell: len(CELLS) - place for place, cell in enumerate(CELLS)}


def cell_of(wildcards):
    """Return the cell that a record is asked of."""
    if wildcards.cell not in CELLS:
        raise WorkflowError(f"{CONFIG}: declares no cell {wildcards.cell!r}")
    return CELLS[wildcards.cell]


def hosts(wildcards):
    """Return how many machines a cell needs, if its nodes are not on this one."""
    cell = cell_of(wildcards)
    return math.ceil(cell.processes / cell.cluster.per_machine)


def cores_of_cell(wildcards):
    """Return all cores: one cell at a time. One, if the nodes of an allocation are counted."""
    counted = "nodes" in workflow.global_resources
    in_allocation = cell_of(wildcards).cluster.kind == "slurm"
    return 1 if counted and in_allocation else workflow.cores


def model_file(wildcards):
    """Return the files that build a cell's model."""
    cell = cell_of(wildcards)
    return source_files(cell.build) if cell.build else f"models/{cell.model}.py"


def strategy_files(wildcards):
    """Return the code of the strategy that a cell trains with; `law.py` is for its page."""
    folder = STRATEGIES[cell_of(wildcards).strategy].folder
    code = sorted(set(folder.rglob("*.py")) - {folder / "law.py"})
    return [os.path.relpath(path) for path in code]


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
        strategy=strategy_files,
    output:
        f"{RESULTS}/records/{{cell}}.json",
    log:
        f"{RESULTS}/logs/{{cell}}/cell.log",
    priority: lambda w: ORDER.get(w.cell, 0)
    threads: cores_of_cell
    resources:
        # for a Slurm job of its own, see profiles/slurm; such a job has two tasks or more
        nodes=hosts,
        tasks=lambda w: max(2, cell_of(w).processes),
        mpi="srun",
    params:
        # a changed cell is measured again, but not for another time limit, nor with other cells
        declaration=lambda w: CELLS[w.cell].declaration,
        measures=MEASURES,
        versions=VERSIONS,
        weights=lambda w, input: options("weights", input.weights),
        logs=lambda w: f"{RESULTS}/logs/{w.cell}",
    shell:
        # The command limits its own time. After Ctrl-C it has 10 s, even if it hangs.
        "timeout --foreground --kill-after=10 0"
        " nodewise measure-cell {wildcards.cell:q} --config {CONFIG:q}"
        " --manifest {input.manifest:q} {params.weights} --out {output:q} --logs {params.logs:q}"
        " > {log:q} 2>&1"
