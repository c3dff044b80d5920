"""Tidy tables.

in:    all records of the study, measured or committed; the noise scales of its models; the published
       numbers; curves that others measured, if the study names any
out:   the folder results/<study>/tables, each table as CSV and as Parquet
steps: build_tables
"""

TABLES = f"{RESULTS}/tables"


rule build_tables:
    input:
        records=RECORDS,
        noise_scales=NOISE_SCALES,
        curves=STUDY.curves,
        published=[
            str(path)
            for study in sorted(Path("data/published").glob("*/study.yaml"))
            for path in sorted(study.parent.iterdir())
        ],
        code=layers("study"),
    output:
        # one output instead of one per table: Snakemake records all inputs for each output
        directory(TABLES),
    log:
        f"{RESULTS}/logs/build_tables.log",
    params:
        watts_per_core=STUDY.watts_per_core,  # the only configuration value used
    shell:
        "nodewise build-tables --config {CONFIG:q} > {log} 2>&1"
