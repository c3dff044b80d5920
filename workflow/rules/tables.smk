"""Tidy tables.

in:    every record of the study; the published numbers
out:   results/<study>/tables/*.csv and *.parquet
steps: build_tables
"""

TABLES = [
    *("cells", "epochs", "steps", "observations", "curves"),
    *("published", "published_runs"),
]
RECORDS = expand(RESULTS + "/records/{cell}.json", cell=CELLS)


rule build_tables:
    input:
        records=RECORDS,
        published=[str(path) for path in sorted(Path("data/published").glob("*.csv"))],
        sources=sources("tables.py", "published.py", "records.py", "cells.py"),
    output:
        expand(
            RESULTS + "/tables/{table}.{format}",
            table=TABLES,
            format=["csv", "parquet"],
        ),
    log:
        f"{RESULTS}/logs/build_tables.log",
    params:
        records=f"{RESULTS}/records",
        tables=f"{RESULTS}/tables",
        config=CONFIG,
    shell:
        "exec nodewise build-tables --config {params.config:q} --records {params.records}"
        " --out {params.tables} > {log} 2>&1"
