"""Fits of the cost models, judged on points that they were not fitted to.

in:    the tables of curve points, cells, epochs and noise scales; calibrations if there are any;
       published curves, as which intervals widen
out:   results/<study>/fits: each table as CSV and as Parquet, and fit.json for `nodewise predict`
steps: build_fits
"""

from nodewise.results.columns import FIT_COLUMNS


rule build_fits:
    input:
        tables=TABLES,
        calibrations=CALIBRATIONS,
        published="data/published/curves/scaling_curves.csv",  # beyond what was measured
        code=layers("study"),
    output:
        expand(
            f"{RESULTS}/fits/{{table}}.{{end}}",
            table=FIT_COLUMNS,
            end=["csv", "parquet"],
        ),
        f"{RESULTS}/fits/fit.json",
    log:
        f"{RESULTS}/logs/build_fits.log",
    shell:
        "nodewise build-fits --config {CONFIG:q} > {log} 2>&1"


FITS = rules.build_fits.output
