"""The gradient noise scale of the study's small models: up to which batch size examples pay off.

in:    a prepared dataset; pretrained weights if the model has any; the model's file; the
       configuration
out:   results/<study>/noise_scale/<model>.json, for those of the project's models that train in
       seconds. `nodewise measure-noise-scale` measures any other model. Files that belong to
       committed records are committed beside them
steps: measure_noise_scale
"""

TRAINED = {cell.model: cell for cell in CELLS.values() if not cell.build}
NOISE_SCALES = [str(path) for path in STUDY.noise_scales()]


rule measure_noise_scale:
    input:
        manifest=lambda w: str(data_manifest(TRAINED[w.model])),
        weights=lambda w: weights_manifest(TRAINED[w.model]) or [],
    output:
        f"{RESULTS}/noise_scale/{{model}}.json",
    log:
        f"{RESULTS}/logs/noise_scale/{{model}}.log",
    # one thread, although TensorFlow uses more: nothing is timed, so other steps may run meanwhile
    params:
        code=lambda w: code_sha256([f"models/{w.model}.py"]),
        seed=STUDY.seed,  # the only configuration value used besides model and dataset
        measures=MEASURES,
        versions=VERSIONS,
    shell:
        # The command limits its own time. After Ctrl-C it has 10 s to end, even if it hangs.
        "timeout --foreground --kill-after=10 0"
        " nodewise measure-noise-scale {wildcards.model} --config {CONFIG:q} > {log:q} 2>&1"
