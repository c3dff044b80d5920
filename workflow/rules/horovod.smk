"""Horovod, built for the TensorFlow that is installed, beside the project's environment.

in:    its source from the package index; a compiler
out:   results/horovod/manifest.json, and the modules that workers import beside it. Without a
       compiler or a network the manifest contains the reason, and Horovod's cells are refused
steps: build_horovod
"""


rule build_horovod:
    input:
        package("strategies/horovod/build.py"),
    output:
        "results/horovod/manifest.json",
    log:
        "results/logs/horovod.log",
    priority: BEFORE_CELLS
    # one thread, although two compilers run half of the time: models can be described meanwhile
    params:
        # It is built again for another version of TensorFlow or Python.
        wanted=lambda w: horovod_build.wanted(),
    shell:
        "nodewise prepare horovod > {log} 2>&1"
