"""Pretrained weights, verified.

in:    data/weights.yaml, the cache, a mirror, the official address, or nothing (random weights)
out:   results/weights/<name>/manifest.json, and the file of the weights beside it unless random
steps: prepare_weights
"""


rule prepare_weights:
    input:
        sources=sources("weights.py", "datasets/fetching.py", "datasets/web.py"),
    output:
        "results/weights/{weights}/manifest.json",
    log:
        "results/logs/weights/{weights}.log",
    params:
        # another entry is no reason to prepare this one anew
        entry=lambda w: entries("data/weights.yaml").get(w.weights),
    shell:
        "nodewise prepare-weights {wildcards.weights} --source {STUDY.data.source}"
        " --out results/weights/{wildcards.weights} > {log} 2>&1"
