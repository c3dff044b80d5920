"""nodewise: config → cells → records → tables → fits → charts → pages → site.

snakemake --cores all                                    the default study
snakemake --cores all --configfile config/smoke.yaml     another one
"""

import os
from pathlib import Path

from nodewise.config import read_config
from nodewise.errors import UserError


configfile: "config/study.yaml"


# The last --configfile wins; the study is checked here, before any job starts.
CONFIG = workflow.configfiles[-1]
try:
    STUDY = read_config(Path(CONFIG))
except UserError as error:
    raise WorkflowError(str(error))

CELLS = {cell.id: cell for cell in STUDY.cells()}
RESULTS = f"results/{STUDY.name}"


include: "workflow/rules/datasets.smk"
include: "workflow/rules/cells.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/overhead.smk"
include: "workflow/rules/charts.smk"
include: "workflow/rules/pages.smk"


localrules:
    all,


rule all:
    input:
        # Records are named one by one: a deleted one is measured again although tables are newer.
        expand(RESULTS + "/records/{cell}.json", cell=CELLS),
        "build/site/index.html",
