"""The study, and functions that all rules share.

in:    the configuration: --configfile, or config/study.yaml
out:   CONFIG, STUDY, RESULTS, CELLS, RECORDS, and functions that use them
"""

import configparser
import math
import os
import signal
import sys
import threading
from importlib.metadata import version
from pathlib import Path

import yaml

from nodewise.cluster import leftovers
from nodewise.strategies import STRATEGIES
from nodewise.strategies.horovod import build as horovod_build
from nodewise.study.config import DEFAULT, check_files_exist, read_config
from nodewise.core.errors import UserError
from nodewise.study.measures import MEASURES
from nodewise.models.facts import DESCRIPTIONS
from nodewise.models.registry import cell_code, registry
from nodewise.measure.inputs import data_manifest, weights_manifest
from nodewise.core.user_function import code_sha256, source_files

leftovers.remove_unclaimed()
leftovers.claim(str(workflow.snakemake_tmp_dir))


def finish_running_jobs(number, frame):
    """Handle a first SIGINT like SIGTERM: running jobs finish, no other job starts.

    By default Snakemake also waits for running jobs on SIGINT, but it forgets that they finished
    and runs them again. A second SIGINT ends it at once.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    terminate = signal.getsignal(signal.SIGTERM)
    if not callable(terminate):  # no job has started yet
        raise KeyboardInterrupt
    # Call it in a thread: it waits for a lock that this interrupted thread may hold.
    threading.Thread(target=terminate, args=(number, frame)).start()


signal.signal(signal.SIGINT, finish_running_jobs)
# Run the commands of this environment, whether it is activated or not.
os.environ.update(PATH=f"{Path(sys.executable).parent}:{os.getenv('PATH', os.defpath)}")
# The kernel sends each command SIGTERM when Snakemake ends, even if Snakemake was killed by SIGKILL.
shell.prefix("set -euo pipefail; exec setpriv --pdeathsig TERM ")

# A single file is the whole study. It is checked before any job starts, never merged with others.
if len(workflow.configfiles) > 1 or workflow.config_settings.config:
    sys.exit(
        "nodewise: one --configfile is a whole study: a second one and --config are not allowed; "
        "to change a value, change the file; name files to make before --configfile"
    )
CONFIG = os.path.relpath(next(iter(workflow.configfiles), DEFAULT))
try:
    STUDY = read_config(Path(CONFIG))
    check_files_exist(STUDY)
    RESULTS = str(STUDY.results)
    # List records one by one: a deleted one is measured again although the tables are newer.
    RECORDS = [str(path) for path in STUDY.record_files()]
    COMPARED = [str(path) for path in STUDY.changes_files()]
except UserError as error:
    sys.exit(f"nodewise: {error}")
TITLES = [str(path) for path in STUDY.earlier_configs()]
DESCRIBED = [f"{DESCRIPTIONS}/{model}.json" for model in registry()]
CELLS = {cell.id: cell for cell in STUDY.cells()}
# The priority of steps that cells wait for: without it, cells whose dataset is ready would be
# measured first, out of order.
BEFORE_CELLS = len(CELLS) + 1
# With other versions, cells are measured again. Committed records need neither package.
VERSIONS = [version(name) for name in ("tensorflow", "keras")] if CELLS else []


PACKAGE = Path("workflow/nodewise")


def package(pattern):
    """Return files of the package, as inputs of a rule that runs them."""
    found = sorted(PACKAGE.glob(pattern))
    assert found, f"package({pattern!r}): no file matches"
    return [str(path) for path in found if path.is_file() and path.suffix != ".pyc"]


def layers(top):
    """Return the code that a step runs: a layer, all layers below it, and the step's command.

    The layers and their order are those of `.importlinter`.

    Args:
        top: the topmost layer that the step imports.
    """
    contracts = configparser.ConfigParser()
    contracts.read(".importlinter")
    order = contracts["importlinter:contract:layers"]["layers"].split("\n")
    names = [{name.strip() for name in line.split("|")} for line in order]
    (place,) = (i for i, beside in enumerate(names) if top in beside)
    below = [top, *(name for beside in names[place + 1 :] for name in sorted(beside))]
    files = [file for layer in below for file in package(f"{layer}/**/*")]
    return [*files, *package("cli/study.py")]


def cell_of(wildcards):
    """Return the cell named by the wildcard.

    Raises:
        WorkflowError: the study declares no such cell.
    """
    if wildcards.cell not in CELLS:
        raise WorkflowError(f"{CONFIG}: declares no cell {wildcards.cell!r}")
    return CELLS[wildcards.cell]


def hosts(wildcards):
    """Return how many machines a cell needs, if its nodes are not on this one."""
    cell = cell_of(wildcards)
    return math.ceil(cell.processes / cell.cluster.per_machine)


def strategy_files(wildcards):
    """Return the code of a cell's strategy."""
    folder = STRATEGIES[cell_of(wildcards).strategy].folder
    return [os.path.relpath(path) for path in sorted(folder.rglob("*.py"))]


def library(wildcards):
    """Return the manifest of the library that a cell's strategy needs, if it has to be built."""
    built = STRATEGIES[cell_of(wildcards).strategy].library
    return [str(built.manifest)] if built else []


def name_other_backend():
    """Say in the log of the workflow that a KERAS_BACKEND other than TensorFlow is not used."""
    backend = os.environ.pop("KERAS_BACKEND", "")
    if backend not in ("", "tensorflow"):
        logger.warning(
            f"KERAS_BACKEND={backend} is ignored: the strategy decides (keras_jax uses JAX)"
        )


def advise_on_large_study():
    """Say how to keep Snakemake from disturbing what it measures, where it would.

    By default Snakemake checks all waiting jobs every second, once for each job that has ended.
    With a longer timespan it also notices the end of the last job later.
    """
    waiting = sum(not Path(record).is_file() for record in RECORDS)
    limit = workflow.scheduling_settings.max_jobs_per_timespan
    if waiting > 100 and limit and limit.timespan <= 1:
        logger.info(
            "More than 100 cells to measure: "
            "add --max-jobs-per-timespan 1000/1m to leave the cores to them."
        )
