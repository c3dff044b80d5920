"""Datasets, verified and unpacked.

in:    data/datasets.yaml, and the files in the cache, in a mirror or at the official address (if
       there are none, synthetic data of the same shape is generated); or a user's own function
out:   results/datasets/<name>/manifest.json, and memory-mapped arrays beside it. If a user's data
       cannot be used, the manifest contains the reason, and cells with these data are refused
steps: prepare_dataset, prepare_own_dataset
"""

DATASETS = yaml.safe_load(Path("data/datasets.yaml").read_text(encoding="utf-8"))
OWN_DATASETS = {cell.dataset: cell.load for cell in CELLS.values() if cell.load}


rule prepare_dataset:
    output:
        manifest="results/datasets/{dataset}/manifest.json",
        arrays=expand(
            "results/datasets/{{dataset}}/{part}.npy",
            part=["train_0", "train_1", "test_0", "test_1"],
        ),
    log:
        "results/logs/datasets/{dataset}.log",
    priority: BEFORE_CELLS
    params:
        # only this entry, so that a change of another one does not prepare this dataset again and
        # measure all cells that train on it
        entry=lambda w: DATASETS.get(w.dataset),
        measures=MEASURES,
    shell:
        # `source` is not a parameter: cells check again whether the data is allowed
        "nodewise prepare {wildcards.dataset} --source {STUDY.data.source} > {log} 2>&1"


rule prepare_own_dataset:
    output:
        # The user's function decides how many arrays are beside it.
        "results/datasets/{own}/manifest.json",
    log:
        "results/logs/datasets/{own}.log",
    wildcard_constraints:
        own="|".join(OWN_DATASETS) or "none",
    priority: BEFORE_CELLS
    params:
        load=lambda w: OWN_DATASETS[w.own],
        code=lambda w: code_sha256(source_files(OWN_DATASETS[w.own])),
    shell:
        # Unusable data must not stop a study: its cells are refused with the reason.
        "nodewise prepare {params.load:q} --keep-refusal > {log} 2>&1"


ruleorder: prepare_own_dataset > prepare_dataset
