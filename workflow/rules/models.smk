"""The models of the project, described layer by layer, whether the study trains them or not.

in:    a model file
out:   results/models/<name>.json: layers, parameters, operations. Beside committed records lie
       committed descriptions: no TensorFlow is needed for their site
steps: describe_model
"""

MODELS = "data/models" if STUDY.records else "results/models"
# A user's own models are measured, not described.
DESCRIPTIONS = [f"{MODELS}/{model}.json" for model in registry()]


rule describe_model:
    input:
        model="models/{model}.py",
        code=package(
            "results/model_description.py", "models/flops.py", "models/describe.py"
        ),
    output:
        "results/models/{model}.json",
    log:
        "results/logs/models/{model}.log",
    shell:
        "nodewise describe-model {wildcards.model} --out {output} > {log} 2>&1"
