"""Datasets, verified and unpacked.

in:    data/datasets.yaml, the cache, a mirror, the official address, or nothing (a stand-in); or a
       user's own function
out:   results/datasets/<name>/manifest.json and memory-mapped arrays beside it; the manifest of own data
       that cannot be used says why, and their cells are refused
steps: prepare_dataset, prepare_own_dataset
"""

DATASETS = yaml.safe_load(Path("data/datasets.yaml").read_text(encoding="utf-8"))
OWN_DATASETS = {cell.dataset: cell.load for cell in CELLS.values() if cell.load}


rule prepare_dataset:
    output:
        manifest="results/datasets/{dataset}/manifest.json",
        arrays=expand(
            "results/datasets/{{dataset}}/{part}.npy",
            part=["x_train", "y_train", "x_test", "y_test"],
        ),
    log:
        "results/logs/datasets/{dataset}.log",
    priority: BEFORE_CELLS
    params:
        # another entry is no reason to prepare this one again, and to measure all that trains on it
        entry=lambda w: DATASETS.get(w.dataset),
        measures=MEASURES,
    shell:
        # what is allowed (source) is checked again by the cells: no reason to prepare anew
        "nodewise prepare-dataset {wildcards.dataset} --source {STUDY.data.source}"
        " --out results/datasets/{wildcards.dataset} > {log} 2>&1"


rule prepare_own_dataset:
    input:
        lambda w: source_files(OWN_DATASETS[w.own]),
    output:
        # how many arrays there are beside it, the user's function decides
        "results/datasets/{own}/manifest.json",
    log:
        "results/logs/datasets/{own}.log",
    wildcard_constraints:
        own="|".join(OWN_DATASETS) or "none",
    priority: BEFORE_CELLS
    params:
        load=lambda w: OWN_DATASETS[w.own],
    shell:
        # data that cannot be used is no reason to stop a study: the cells tell why they have no result
        "nodewise prepare-own-dataset {params.load:q} --keep-refusal"
        " --out results/datasets/{wildcards.own} > {log} 2>&1"


ruleorder: prepare_own_dataset > prepare_dataset
