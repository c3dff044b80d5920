"""Overhead models, fitted and judged on points that they were not fitted to.

in:    the tables of curve points, cells, epochs and noise scales; calibrations if there are any;
       published curves, as which intervals widen
out:   results/<study>/overhead: a CSV file for each table, and fit.json for `nodewise predict`
steps: fit_overhead
"""

from nodewise.results.columns import OVERHEAD as FITTED


rule fit_overhead:
    input:
        tables=TABLES,
        calibrations=CALIBRATIONS,
        published="data/published/curves/scaling_curves.csv",  # beyond what was measured
        code=layers("study"),
    output:
        [f"{RESULTS}/overhead/{table}.csv" for table in FITTED],
        f"{RESULTS}/overhead/fit.json",
    log:
        f"{RESULTS}/logs/fit_overhead.log",
    shell:
        "nodewise fit-overhead --config {CONFIG:q} > {log} 2>&1"


OVERHEAD = rules.fit_overhead.output
