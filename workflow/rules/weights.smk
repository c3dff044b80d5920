"""Pretrained weights, verified.

in:    data/weights.yaml, the cache, a mirror, the official address, or nothing (random weights)
out:   results/weights/<name>/manifest.json, and the file of the weights beside it unless random
steps: prepare_weights
"""


rule prepare_weights:
    input:
        registry="data/weights.yaml",
        sources=sources("weights.py", "datasets/fetching.py", "datasets/web.py"),
    output:
        "results/weights/{weights}/manifest.json",
    log:
        "results/logs/weights/{weights}.log",
    params:
        source=STUDY.data.source,
        # a mirror that appears or goes away is worth another look; which one it is, is not
        mirrored="NODEWISE_DATASETS" in os.environ,
    shell:
        "exec nodewise prepare-weights {wildcards.weights} --source {params.source}"
        " --out results/weights/{wildcards.weights} > {log} 2>&1"
