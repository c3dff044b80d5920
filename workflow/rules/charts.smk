"""Charts.

in:    the tables, the fits, the models' descriptions, and the calibration if anything is emulated
out:   results/<study>/charts: per chart a Vega-Lite specification, a picture, its data, its text
steps: draw_charts
"""


rule draw_charts:
    input:
        tables=expand(RESULTS + "/tables/{table}.parquet", table=TABLES),
        overhead=OVERHEAD,
        calibrations=CALIBRATIONS,
        models=DESCRIPTIONS,
        foreseen="data/published/ntua_figure28.csv",
        registry="models/registry.yaml",
        sources=needed("charts/__init__.py"),
    output:
        # stands for the folder: charts that did not change are not drawn again
        RESULTS + "/charts/themes.js",
    log:
        f"{RESULTS}/logs/draw_charts.log",
    params:
        tables=f"{RESULTS}/tables",
        overhead=f"{RESULTS}/overhead",
        charts=f"{RESULTS}/charts",
        calibrations=CALIBRATION_OPTIONS,
        models=MODELS,
    shell:
        "exec nodewise draw-charts --tables {params.tables} --overhead {params.overhead}"
        " --out {params.charts} {params.calibrations} --models {params.models} > {log} 2>&1"
