"""Overhead models, fitted and judged.

in:    the curves and cells tables, the published table
out:   results/<study>/overhead/{fits,predictions,judgement}.csv
steps: fit_overhead
"""


rule fit_overhead:
    input:
        tables=expand(
            RESULTS + "/tables/{table}.parquet", table=["curves", "cells", "published"]
        ),
        sources=sources("overhead/*.py"),
    output:
        expand(
            RESULTS + "/overhead/{table}.csv",
            table=["fits", "predictions", "judgement"],
        ),
    log:
        f"{RESULTS}/logs/fit_overhead.log",
    params:
        tables=f"{RESULTS}/tables",
        overhead=f"{RESULTS}/overhead",
    shell:
        "exec nodewise fit-overhead --tables {params.tables} --out {params.overhead} > {log} 2>&1"
