"""Changes between two runs, pages and site.

in:    tables (and the records that these are of), fits, charts and their pictures, the models'
       descriptions, the calibration if any; templates and assets
out:   build/docs (the pages), build/cells (those of cells) and build/site (the site; open
       build/site/index.html)
steps: compare_runs (if the study names two runs), render_cells, render_pages, build_site
"""

SITE_SOURCES = [str(path) for path in sorted(Path("site").rglob("*")) if path.is_file()]
CHANGES = f"{RESULTS}/changes.csv"

if STUDY.changes:

    rule compare_runs:
        input:
            records=COMPARED,
            code=package("compare.py"),
        output:
            CHANGES,
        log:
            f"{RESULTS}/logs/compare_runs.log",
        params:
            old=STUDY.changes.old,
            new=STUDY.changes.new,
        shell:
            "nodewise compare {params.old:q} {params.new:q} --out {output} > {log} 2>&1"


rule render_cells:
    input:
        config=CONFIG,
        # and so every record: its checksum is in them, and Snakemake has not to plan it once more
        tables=TABLES,
        templates=["site/templates/_macros.md.j2", "site/templates/cells/cell.html.j2"],
        registries=["models/registry.yaml", "data/datasets.yaml"],
        code=package("pages/*.py"),
        # only not beside it: charts take two cores, and the other pages wait for them
        # (a copy of its name: of the rule's own, Snakemake would mark it for all who take it)
        turn=ancient(f"{RESULTS}/charts/.done"),
    output:
        # stands for the folder: pages that did not change are not written again
        "build/cells/.done",
    log:
        f"{RESULTS}/logs/render_cells.log",
    params:
        results=RESULTS,
        cells="build/cells",
    shell:
        "nodewise render-cells --config {input.config:q} --results {params.results}"
        " --out {params.cells} > {log} 2>&1"


rule render_pages:
    input:
        config=CONFIG,
        tables=TABLES,
        overhead=OVERHEAD,
        charts=rules.draw_charts.output,
        calibrations=CALIBRATIONS,
        models=DESCRIPTIONS,
        site=SITE_SOURCES,
        claims="data/published/claims.yaml",
        foreseen="data/published/ntua_figure28.csv",
        peers=[
            path
            for path in ["data/bench/peers.json", "data/bench/all_reduce.json"]
            if Path(path).is_file()
        ],
        changes=[CHANGES] if STUDY.changes or Path(CHANGES).is_file() else [],
        registries=["models/registry.yaml", "data/datasets.yaml"],
        templates=["models/templates/own_model.py", "data/templates/own_data.py"],
        code=package("pages/*.py"),
    output:
        # stands for the folder: pages that did not change are not written again
        "build/docs/.done",
    log:
        f"{RESULTS}/logs/render_pages.log",
    params:
        results=RESULTS,
        docs="build/docs",
        calibrations=CALIBRATION_OPTIONS,
        models=MODELS,
    shell:
        "nodewise render-pages --config {input.config:q} --results {params.results}"
        " --out {params.docs} {params.calibrations} --models {params.models} > {log} 2>&1"


rule build_site:
    input:
        docs=rules.render_pages.output,
        cells=rules.render_cells.output,
        pictures=rules.draw_pictures.output,
        mkdocs="mkdocs.yml",
        overrides=[path for path in SITE_SOURCES if path.startswith("site/overrides")],
        code=package("site.py", "markdown_tables.py"),
    output:
        # stands for the folder: pages that did not change are not rendered again
        "build/site/.done",
    log:
        f"{RESULTS}/logs/build_site.log",
    params:
        docs="build/docs",
        cells="build/cells",
        pictures=f"{RESULTS}/pictures",
        site="build/site",
    shell:
        "nodewise build-site --pages {params.docs} --cells {params.cells}"
        " --pictures {params.pictures} --out {params.site} > {log} 2>&1"
