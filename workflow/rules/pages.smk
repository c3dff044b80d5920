"""Changes between two runs, the pages, and the site.

in:    the tables and their records, fits, the models' descriptions, the calibration if there is one;
       templates and assets
out:   build/docs (the pages with their charts) and build/site (the site; open build/site/index.html)
steps: compare_runs (if the study names two runs), build_site
"""

SITE_SOURCES = [str(path) for path in sorted(Path("site").rglob("*")) if path.is_file()]
CHANGES = f"{RESULTS}/changes.csv"

if STUDY.changes:

    rule compare_runs:
        input:
            records=COMPARED,
            code=layers("results"),
        output:
            CHANGES,
        log:
            f"{RESULTS}/logs/compare_runs.log",
        localrule: True
        params:
            old=STUDY.changes.old,
            new=STUDY.changes.new,
        shell:
            "nodewise compare {params.old:q} {params.new:q} --out {output} > {log} 2>&1"


rule build_site:
    input:
        config=CONFIG,
        titles=TITLES,
        # With the tables every record is an input: they contain the records' checksums.
        tables=TABLES,
        fits=FITS,
        calibrations=CALIBRATIONS,
        models=DESCRIBED,
        own_models=list(OWN_MODELS.values()),
        site=SITE_SOURCES,
        published=sorted(str(path) for path in Path("data/published").glob("*/*.*")),
        peers=sorted(str(path) for path in Path("data/bench").glob("peers.*")),
        changes=[CHANGES] if STUDY.changes or Path(CHANGES).is_file() else [],
        registries=[
            *(f"models/{model}.py" for model in registry()),
            "data/datasets.yaml",
        ],
        mkdocs=["mkdocs.yml", "CITATION.cff"],
        # The page "Bring your own" shows these files.
        templates=["models/templates/own_model.py", "data/templates/own_data.py"],
        code=layers("report"),
    output:
        directory("build/docs"),
        directory("build/site"),
    log:
        f"{RESULTS}/logs/build_site.log",
    shell:
        "nodewise build-site --config {input.config:q} > {log} 2>&1"
