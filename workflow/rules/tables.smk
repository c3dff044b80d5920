"""Tidy tables.

in:    every record of the study, measured by it or committed; the noise scales of its models; the
       published numbers
out:   results/<study>/tables/*.csv and *.parquet
steps: build_tables
"""

TABLES = [
    *("cells", "epochs", "steps", "observations", "curves", "noise_scale"),
    *("published", "published_runs"),
]


rule build_tables:
    input:
        records=RECORDS,
        noise_scales=NOISE_SCALES,
        published=[str(path) for path in sorted(Path("data/published").glob("*.csv"))],
        sources=needed("tables.py", "published.py"),
    output:
        # beside each lies a CSV: of each output Snakemake would note all records once more
        expand(RESULTS + "/tables/{table}.parquet", table=TABLES),
    log:
        f"{RESULTS}/logs/build_tables.log",
    params:
        tables=f"{RESULTS}/tables",
        watts_per_core=STUDY.watts_per_core,  # all that it takes from the configuration
        noise_scales=NOISE_SCALE_OPTIONS,
    shell:
        "exec nodewise build-tables --config {CONFIG:q} --out {params.tables}"
        " {params.noise_scales} > {log} 2>&1"
