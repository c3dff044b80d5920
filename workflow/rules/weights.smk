"""Pretrained weights, verified.

in:    data/weights.yaml, and the files in the cache, in a mirror or at the official address
out:   results/weights/<name>/manifest.json, and the file of the weights beside it. If no file is
       available, the manifest says that the weights are random
steps: prepare_weights
"""

WEIGHTS = yaml.safe_load(Path("data/weights.yaml").read_text(encoding="utf-8"))


rule prepare_weights:
    output:
        "results/weights/{weights}/manifest.json",
    log:
        "results/logs/weights/{weights}.log",
    priority: BEFORE_CELLS
    params:
        # only this entry, so that a change of another one does not prepare these weights again
        entry=lambda w: WEIGHTS.get(w.weights),
    shell:
        "nodewise prepare {wildcards.weights} --weights --source {STUDY.data.source}"
        " > {log} 2>&1"
