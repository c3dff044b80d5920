"""Overhead models, fitted and judged.

in:    the tables of curves, cells, epochs, noise scales and published points; calibrations if
       anything is emulated
out:   results/<study>/overhead/{choices,fits,predictions,trials,judgement,diagnosis,optima,rates,
       savings,steps_to_accuracy}.csv
steps: fit_overhead
"""


rule fit_overhead:
    input:
        tables=expand(
            RESULTS + "/tables/{table}.parquet",
            table=["curves", "cells", "epochs", "noise_scale", "published"],
        ),
        calibrations=CALIBRATIONS,
        sources=needed("overhead/study.py", "overhead/steps_to_accuracy.py", "views.py"),
    output:
        expand(
            RESULTS + "/overhead/{table}.csv",
            table=[
                *("choices", "fits", "predictions", "trials", "judgement"),
                *("diagnosis", "optima", "rates", "savings", "steps_to_accuracy"),
            ],
        ),
    log:
        f"{RESULTS}/logs/fit_overhead.log",
    params:
        tables=f"{RESULTS}/tables",
        overhead=f"{RESULTS}/overhead",
        calibrations=CALIBRATION_OPTIONS,
    shell:
        "exec nodewise fit-overhead --tables {params.tables} --out {params.overhead}"
        " {params.calibrations} > {log} 2>&1"
