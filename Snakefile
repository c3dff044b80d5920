"""nodewise: config → cells → records → tables → fits → charts → pages → site.

snakemake --cores all                                    the default study
snakemake --cores all --configfile config/smoke.yaml     another one
snakemake --cores all --configfile config/published.yaml the site of the committed records
"""

import os
import shlex
import sys
from importlib.metadata import version
from pathlib import Path

from nodewise import horovod_build
from nodewise.config import read_config
from nodewise.declared import check_declared
from nodewise.errors import UserError
from nodewise.measure.version import MEASURES
from nodewise.models import registry, weights_of
from nodewise.specs import source_files

# Commands are those of this environment, whether it is activated or not.
os.environ["PATH"] = os.pathsep.join(
    [str(Path(sys.executable).parent), os.environ["PATH"]]
)
# The kernel sends each command SIGTERM when Snakemake ends, even if Snakemake was killed by SIGKILL.
shell.prefix("set -euo pipefail; exec setpriv --pdeathsig TERM ")

# One file is one study: read and checked here, whole, before any job starts; never merged.
if len(workflow.configfiles) > 1 or workflow.config_settings.config:
    sys.exit(
        "nodewise: one --configfile is a whole study: give no second one and no --config, "
        "and name files to make before it; to change a value, change the file"
    )
CONFIG = os.path.relpath(next(iter(workflow.configfiles), "config/study.yaml"))
try:
    STUDY = read_config(Path(CONFIG))
    check_declared(STUDY)
    RESULTS = f"results/{STUDY.name}"
    # One by one: a deleted one is measured again although tables are newer.
    RECORDS = [str(path) for path in STUDY.record_files(Path(RESULTS, "records"))]
    COMPARED = [str(path) for path in STUDY.changes_files()]
except UserError as error:
    sys.exit(f"nodewise: {error}")


def package(*patterns):
    """Return files of the package as inputs of a rule that runs them."""
    root = Path("workflow/nodewise")
    return [str(path) for pattern in patterns for path in sorted(root.glob(pattern))]


CELLS = {cell.id: cell for cell in STUDY.cells()}
# Whoever installs other versions measures again. Committed records need neither package.
VERSIONS = [version(name) for name in ("tensorflow", "keras")] if CELLS else []


include: "workflow/rules/datasets.smk"
include: "workflow/rules/weights.smk"
include: "workflow/rules/models.smk"
include: "workflow/rules/horovod.smk"
include: "workflow/rules/cells.smk"
include: "workflow/rules/calibration.smk"
include: "workflow/rules/noise_scale.smk"
include: "workflow/rules/tables.smk"
include: "workflow/rules/overhead.smk"
include: "workflow/rules/charts.smk"
include: "workflow/rules/pages.smk"


onstart:
    if CELLS:
        shell("nodewise plan --config {CONFIG:q}")


# What has no result is no failure of the workflow: said at its end, whatever else happened.
onsuccess:
    if CELLS:
        shell("nodewise gaps --config {CONFIG:q}")


onerror:
    if CELLS:
        shell("nodewise gaps --config {CONFIG:q}")


localrules:
    all,


rule all:
    input:
        RECORDS,
        "build/site/.done",
