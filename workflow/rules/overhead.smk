"""Overhead models, fitted and judged on points that they were not fitted to.

in:    the tables of curve points, cells, epochs and noise scales; calibrations if there are any
out:   results/<study>/overhead/{fits,predictions,optima,steps_to_accuracy}.csv, trials.csv, and
       fit.json for `nodewise predict`
steps: fit_overhead, judge_overhead
"""

FITTED = ["fits", "predictions", "optima", "steps_to_accuracy"]


rule fit_overhead:
    input:
        tables=TABLES,
        calibrations=CALIBRATIONS,
        code=layers("predict", "tables"),
    output:
        [f"{RESULTS}/overhead/{table}.csv" for table in FITTED],
        f"{RESULTS}/overhead/fit.json",
    log:
        f"{RESULTS}/logs/fit_overhead.log",
    priority: 1  # Charts wait for it, while nothing waits for the pages of cells.
    params:
        overhead=lambda w, output: os.path.dirname(output[0]),
        calibrations=CALIBRATION_OPTIONS,
    shell:
        "nodewise fit-overhead --tables {input.tables} --out {params.overhead}"
        " {params.calibrations} > {log} 2>&1"


rule judge_overhead:
    input:
        tables=TABLES,
        calibrations=CALIBRATIONS,
        code=layers("predict", "tables"),
    output:
        f"{RESULTS}/overhead/trials.csv",
    log:
        f"{RESULTS}/logs/judge_overhead.log",
    priority: 1
    params:
        overhead=lambda w, output: os.path.dirname(output[0]),
        calibrations=CALIBRATION_OPTIONS,
    shell:
        "nodewise judge-overhead --tables {input.tables} --out {params.overhead}"
        " {params.calibrations} > {log} 2>&1"


OVERHEAD = [*rules.fit_overhead.output, *rules.judge_overhead.output]
