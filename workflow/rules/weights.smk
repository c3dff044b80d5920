"""Pretrained weights, verified.

in:    data/weights.yaml, the cache, a mirror, the official address, or nothing (random weights)
out:   results/weights/<name>/manifest.json, and the file of the weights beside it unless random
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
        "nodewise prepare-weights {wildcards.weights} --source {STUDY.data.source}"
        " --out results/weights/{wildcards.weights} > {log} 2>&1"
