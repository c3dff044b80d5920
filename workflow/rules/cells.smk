"""Measurement of cells, one at a time.

in:    a prepared dataset; pretrained weights if the model has any; Horovod if the cell's strategy
       needs it; the code of its strategy. A comment in the code of its model changes nothing
out:   results/<study>/records/<cell>.json, even if the cell failed
steps: measure_cell
"""

# Snakemake measures cells in this order: one repeat after the other, with nodes and batches mixed.
ORDER = {cell: len(CELLS) - place for place, cell in enumerate(CELLS)}


rule measure_cell:
    input:
        manifest=lambda w: str(data_manifest(cell_of(w))),
        weights=lambda w: weights_manifest(cell_of(w)) or [],
        library=library,
        strategy=strategy_files,
    output:
        f"{RESULTS}/records/{{cell}}.json",
    log:
        f"{RESULTS}/logs/{{cell}}/cell.log",
    priority: lambda w: ORDER.get(w.cell, 0)
    threads: workflow.cores  # one cell runs at a time
    resources:
        # for a separate Slurm job, see profiles/slurm; such a job has at least two tasks
        nodes=hosts,
        tasks=lambda w: max(2, cell_of(w).processes),
        mpi="srun",
    params:
        # A cell is measured again if its declaration changes. The time limit and other cells are
        # not part of that.
        declaration=lambda w: CELLS[w.cell].declaration,
        model=lambda w: cell_code(cell_of(w)),
        measures=MEASURES,
        versions=VERSIONS,
    shell:
        # The command limits its own time. After Ctrl-C it has 10 s to end, even if it hangs.
        "timeout --foreground --kill-after=10 0"
        " nodewise measure-cell {wildcards.cell:q} --config {CONFIG:q} > {log:q} 2>&1"
