"""Charts.

in:    the tables and the fits
out:   results/<study>/charts: per chart a Vega-Lite specification, a picture, its data, its text
steps: draw_charts
"""


rule draw_charts:
    input:
        tables=expand(RESULTS + "/tables/{table}.parquet", table=TABLES),
        overhead=rules.fit_overhead.output,
        sources=[
            str(path) for path in sorted(Path("workflow/nodewise/charts").glob("*.py"))
        ],
    output:
        charts=directory(RESULTS + "/charts"),
    log:
        f"{RESULTS}/logs/draw_charts.log",
    params:
        tables=f"{RESULTS}/tables",
        overhead=f"{RESULTS}/overhead",
    shell:
        "exec nodewise draw-charts --tables {params.tables} --overhead {params.overhead}"
        " --out {output.charts} > {log} 2>&1"
