"""nodewise: config → cells → records → tables → fits → pages → site.

snakemake --cores all                                    the default study
snakemake --cores all --configfile config/smoke.yaml     another one
snakemake --cores all --configfile config/published.yaml the site of the committed records
snakemake --cores all --verbose                          all that Snakemake prints
"""


include: "workflow/rules/common.smk"
include: "workflow/rules/datasets.smk"
include: "workflow/rules/weights.smk"
include: "workflow/rules/horovod.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/cells.smk"
include: "workflow/rules/calibration.smk"
include: "workflow/rules/noise_scale.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/fits.smk"
include: "workflow/rules/pages.smk"


# If an executor submits jobs, only cells are submitted.
localrules:
    all,
    prepare_dataset,
    prepare_own_dataset,
    prepare_weights,
    build_horovod,
    describe_own_model,
    measure_noise_scale,
    build_tables,
    build_fits,
    build_site,


rule all:
    # List every result, not only the site: Snakemake does not remake a missing file if all files
    # that need it exist.
    input:
        RECORDS,
        CALIBRATIONS,
        NOISE_SCALES,
        TABLES,
        FITS,
        rules.build_site.output,


onstart:
    if CELLS:
        name_other_backend()
        shell("nodewise plan --config {CONFIG:q}")
        advise_on_large_study()


# A cell without a result does not fail the workflow; it is listed here.
onsuccess:
    if CELLS:
        shell("nodewise missing --config {CONFIG:q}")
    if Path("build/site/index.html").is_file():
        logger.info("The site: build/site/index.html")


onerror:
    if CELLS:
        shell("nodewise missing --config {CONFIG:q}")
