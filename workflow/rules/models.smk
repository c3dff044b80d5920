"""The models of the project, described layer by layer, whether the study trains them or not.

in:    a model file
out:   results/models/<name>.json: layers, parameters, operations
steps: describe_model
"""

# A user's own models are measured, not described.
DESCRIPTIONS = expand("results/models/{model}.json", model=registry())


rule describe_model:
    input:
        model="models/{model}.py",
        sources=sources("architecture.py", "flops.py", "measure/describe.py"),
    output:
        "results/models/{model}.json",
    log:
        "results/logs/models/{model}.log",
    shell:
        "exec nodewise describe-model {wildcards.model} --out {output} > {log} 2>&1"
