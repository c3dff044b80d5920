"""Charts.

in:    the tables, the fits, the models' descriptions, the calibration if there is one; the
       configuration, and those of studies measured before, for the titles of their experiments
out:   results/<study>/charts: for each chart a Vega-Lite specification with its text, its data and
       a picture
steps: draw_charts
"""


rule draw_charts:
    input:
        config=CONFIG,
        titles=TITLES,
        tables=TABLES,
        overhead=OVERHEAD,
        calibrations=CALIBRATIONS,
        models=DESCRIBED,
        own_models=list(OWN_MODELS.values()),
        foreseen="data/published/ntua/foreseen.csv",
        registry=[f"models/{model}.py" for model in registry()],
        code=layers("report", "report"),
    output:
        directory(f"{RESULTS}/charts"),
    log:
        f"{RESULTS}/logs/draw_charts.log",
    params:
        overhead=f"{RESULTS}/overhead",
        calibrations=CALIBRATION_OPTIONS,
    shell:
        "nodewise draw-charts --config {input.config:q} --tables {input.tables}"
        " --overhead {params.overhead}"
        " --out {output} {params.calibrations} > {log} 2>&1"
