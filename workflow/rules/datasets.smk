"""Datasets, verified and unpacked.

in:    data/datasets.yaml, the cache, a mirror, the official address, or nothing (a stand-in)
out:   results/datasets/<name>/manifest.json and memory-mapped arrays beside it
steps: prepare_dataset
"""


rule prepare_dataset:
    input:
        registry="data/datasets.yaml",
        sources=sources("datasets/**/*.py"),
    output:
        manifest="results/datasets/{dataset}/manifest.json",
        arrays=expand(
            "results/datasets/{{dataset}}/{part}.npy",
            part=["x_train", "y_train", "x_test", "y_test"],
        ),
    log:
        "results/logs/datasets/{dataset}.log",
    params:
        source=STUDY.data.source,
        seed=STUDY.seed,
        # a mirror that appears or goes away is worth another look; which one it is, is not
        mirrored="NODEWISE_DATASETS" in os.environ,
    shell:
        "exec nodewise prepare-dataset {wildcards.dataset} --source {params.source}"
        " --seed {params.seed} --out results/datasets/{wildcards.dataset} > {log} 2>&1"
