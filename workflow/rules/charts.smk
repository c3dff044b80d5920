"""Charts.

in:    the tables, the fits, the models' descriptions, and the calibration if anything is emulated
out:   results/<study>/charts: per chart a Vega-Lite specification with its text, its data;
       results/<study>/pictures: a picture of each
steps: draw_charts, draw_pictures
"""


rule draw_charts:
    input:
        tables=TABLES,
        overhead=OVERHEAD,
        calibrations=CALIBRATIONS,
        models=DESCRIPTIONS,
        foreseen="data/published/ntua_figure28.csv",
        registry="models/registry.yaml",
        code=package("charts/*.py", "views.py"),
    output:
        # stands for the folder: charts that did not change are not written again
        f"{RESULTS}/charts/.done",
    log:
        f"{RESULTS}/logs/draw_charts.log",
    params:
        overhead=f"{RESULTS}/overhead",
        charts=f"{RESULTS}/charts",
        calibrations=CALIBRATION_OPTIONS,
        models=MODELS,
    shell:
        "nodewise draw-charts --tables {input.tables} --overhead {params.overhead}"
        " --out {params.charts} {params.calibrations} --models {params.models} > {log} 2>&1"


rule draw_pictures:
    input:
        charts=rules.draw_charts.output,
        code=package("charts/pictures.py"),
    output:
        # stands for the folder: pictures that did not change are not drawn again
        f"{RESULTS}/pictures/.done",
    log:
        f"{RESULTS}/logs/draw_pictures.log",
    priority: 1  # pages of cells take less time, beside other pages or after
    params:
        charts=f"{RESULTS}/charts",
        pictures=f"{RESULTS}/pictures",
    shell:
        "nodewise draw-pictures --charts {params.charts} --out {params.pictures} > {log} 2>&1"
