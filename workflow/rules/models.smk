"""Descriptions of users' own models. Those of the project's models are committed in data/models.

in:    a prepared dataset; the model's file
out:   results/models/<name>.json. If a model cannot be described, the file contains the reason.
       Descriptions that belong to committed records are committed beside them
steps: describe_own_model
"""

from nodewise.models.facts import own_description, own_models

TO_DESCRIBE = {
    own_description(cell).stem: cell for cell in own_models(CELLS.values()).values()
}
OWN_MODELS = {name: str(path) for name, path in STUDY.own_descriptions().items()}


rule describe_own_model:
    input:
        manifest=lambda w: str(data_manifest(TO_DESCRIBE[w.own_model])),
    output:
        "results/models/{own_model}.json",
    log:
        "results/logs/models/{own_model}.log",
    wildcard_constraints:
        own_model="|".join(TO_DESCRIBE) or "none",
    # It runs before cells, because a cell is refused if its model does not fit this machine.
    priority: BEFORE_CELLS
    params:
        code=lambda w: cell_code(TO_DESCRIBE[w.own_model]),
        build=lambda w: TO_DESCRIBE[w.own_model].build,
        dataset=lambda w: TO_DESCRIBE[w.own_model].load
        or TO_DESCRIBE[w.own_model].dataset,
        measures=MEASURES,
        versions=VERSIONS,
    shell:
        # A model that cannot be described must not stop a study.
        "nodewise describe-model {params.build:q} --dataset {params.dataset:q}"
        " --keep-refusal > {log:q} 2>&1"
