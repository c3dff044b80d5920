"""What `snakemake` prints of a study: a line for each cell and step, and the time left.

Snakemake finds this logger plugin by its name; `profiles/default` chooses it. With `--verbose` it
prints nothing, and Snakemake prints everything itself.
"""

import os
import shutil
import statistics
import sys
import time
from logging import LogRecord
from pathlib import Path
from typing import Any, NamedTuple

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from nodewise.core.cell import Cell
from nodewise.core.errors import UserError
from nodewise.core.units import counted, write_duration, write_number
from nodewise.results.record import read_record
from nodewise.strategies import STRATEGIES
from nodewise.study.config import DEFAULT, read_config
from nodewise.study.estimate import REFERENCE_S, Machine, estimates

TARGET = "all"
LOG_LINES = 15
LITTLE_BYTES = 100_000
LONG_S = 30  # a cell that may take longer is also announced
UNKNOWN_S = 10.0  # the estimate for a user's own model, before it has been described
# What Snakemake says in every run, and readers do not need.
BOILERPLATE = (
    *("Building DAG", "Using shell", "Provided ", "Rules claiming", "Select jobs", "Execute "),
    *("Conda environments", "Singularity containers", "Complete log", "Elapsed", "Shutting down"),
    *("Assuming unrestricted", "Processed ", "Workflow has started", "host:", "Reasons:"),
    *("This was a dry-run", "Some jobs were triggered", "Rules with provenance", "Group jobs"),
)
ENDINGS = ("Exiting because a job execution failed", "WorkflowError:\nAt least one job did not")
STOPPING = ("Will exit after finishing", "Terminating processes on user request")
NO_CONFIG = "There is no such configuration file. Name files to make before --configfile."
DISK = "Snakemake needs space and the right to write in results/, build/ and .snakemake/."
STOPPED = "Stopped on request. What is finished is kept; the same command continues with the rest."


class Planned(NamedTuple):
    """A cell of the study: its name for readers, its record file, its estimated seconds."""

    name: str
    record: Path
    estimate_s: float


class LogHandler(LogHandlerBase):
    """Print a study's progress to Snakemake's stream, one line at a time."""

    writes_to_file = has_filter = needs_rulegraph = False
    has_formatter = True

    def __post_init__(self) -> None:
        self.jobs: dict[int, tuple[str, str | None, float]] = {}  # name, cell, when it started
        self.cells: dict[str, Planned] = {}
        self.total: int | None = None  # cells to measure; None before they have been counted
        self.done = 0
        self.took_s = self.estimated_s = 0.0
        self.failed = self.stopped = False
        self.passed_on: set[str] = set()

    @property
    def writes_to_stream(self) -> bool:
        """Whether this prints: with --verbose Snakemake does."""
        return not self.common_settings.verbose

    def emit(self, record: LogRecord) -> None:
        """Print what readers need of an event."""
        if not self.writes_to_stream:
            return
        told = record.__dict__
        match told.get("event"):
            case LogEvent.WORKFLOW_STARTED:
                self.cells = plan(Path((told.get("configfiles") or [DEFAULT])[0]))
            case LogEvent.RUN_INFO if self.total is None:
                self.count(told["stats"])
            case LogEvent.JOB_INFO if told["rule_name"] != TARGET:
                self.start(told)
            case LogEvent.JOB_FINISHED:
                self.finish(told["job_id"])
            case LogEvent.JOB_ERROR:
                self.fail(told)
            case None | LogEvent.ERROR:
                self.pass_on(record)

    def say(self, line: str) -> None:
        """Print a line."""
        print(line, file=sys.stdout if self.common_settings.stdout else sys.stderr, flush=True)

    def count(self, stats: dict[str, int]) -> None:
        """Say how many steps are to be run, and of which kinds."""
        steps = {name: n for name, n in stats.items() if name not in {TARGET, "total"}}
        self.total = steps.get("measure_cell", 0)
        kinds = (f"{named(name)} ({n})" if n > 1 else named(name) for name, n in steps.items())
        self.say(f"Steps to run: {sum(steps.values())}: {', '.join(kinds)}")

    def start(self, told: dict[str, Any]) -> None:
        """Announce a step; of cells, those that take long."""
        wildcards = dict(told["wildcards"])
        cell = wildcards.get("cell")
        planned = self.cells.get(cell or "")
        name = planned.name if planned else cell or named(told["rule_name"], *wildcards.values())
        if self.common_settings.dryrun:
            reason = told["reason"].partition(":")[0].lower()  # without up to thousands of files
            self.say(f"measure {name}: {reason}" if cell else f"{name}: {reason}")
            return
        self.jobs[told["jobid"]] = name, cell, time.monotonic()
        if cell is None:
            self.say(name)
        elif planned and planned.estimate_s > LONG_S:
            self.say(f"measuring {name}: about {write_duration(planned.estimate_s)}")

    def finish(self, jobid: int) -> None:
        """Print the result of a cell, and the time left: estimates, corrected by those so far."""
        name, cell, started = self.jobs.pop(jobid, ("", None, 0.0))
        if cell is None:
            return
        self.done += 1
        left, result, ending = (self.total or 0) - self.done, "measured", ""
        if planned := self.cells.pop(cell, None):
            self.took_s += time.monotonic() - started
            self.estimated_s += planned.estimate_s
            result = result_of(planned.record)
        missing = [one.estimate_s for one in self.cells.values() if not one.record.is_file()]
        if left and missing and self.estimated_s:
            left_s = left * statistics.mean(missing) * self.took_s / self.estimated_s
            ending = f" (about {write_duration(left_s)} left for cells)"
        self.say(f"{self.done}/{self.total} {name}: {result}{ending}")

    def fail(self, told: dict[str, Any]) -> None:
        """Name the step that failed and print the end of its log, unless the run was stopped."""
        name, *_ = self.jobs.pop(told["jobid"], (named(told["rule_name"]),))
        if self.stopped:  # Ctrl-C ends steps, too
            return
        self.failed = True
        self.say(f"failed: {name}")
        for log in filter(Path.is_file, map(Path, told["log"])):
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
            self.say("\n    ".join([f"  the end of {log}:", *lines]))
            if shutil.disk_usage(log.parent).free < LITTLE_BYTES:  # no log could tell it
                self.say(f"  the disk of {log.parent} is full")

    def pass_on(self, record: LogRecord) -> None:
        """Print what Snakemake says, but for what it says in every run."""
        message = str(record.msg or "").strip()
        if not message or message == "None" or message.startswith(BOILERPLATE):
            return
        if getattr(record, "exception", "") == "RuleException" and "CalledProcessError" in message:
            return  # the step's own error says more
        *above, last = message.splitlines()
        if above and "Error: [Errno " in last:  # the end of a traceback
            error = last.partition(": ")[2]
            # of the files that the command line names, only configuration files are opened so early
            named = {repr(str(Path(word.rpartition("=")[2]))) for word in sys.argv}
            missing = error.startswith("[Errno 2]") and error.rpartition(": ")[2] in named
            message = f"{error}. {NO_CONFIG if missing else DISK}"
        self.stopped |= message.startswith(STOPPING)
        if message.startswith(ENDINGS):
            if self.stopped:
                message = STOPPED
            elif self.failed:
                return
        if message not in self.passed_on:  # of an interrupted run, it comes for each step
            self.passed_on.add(message)
            self.say(message)


def plan(config: Path) -> dict[str, Planned]:
    """Return the cells of a study by id; none if it is wrong, which the workflow says itself."""
    try:
        study = read_config(config)
        cells = study.cells()
        files = study.record_files() if cells else []  # those of committed records have no cells
        times = estimates(cells, Machine(REFERENCE_S, os.cpu_count() or 1))
    except UserError:
        return {}
    return {
        cell.id: Planned(name_of(cell), record, time.cell_s if time else UNKNOWN_S)
        for cell, record, time in zip(cells, files, times, strict=True)
    }


def name_of(cell: Cell) -> str:
    """Return a cell's name for readers: `fashion_cnn, Horovod, 2 nodes, batch 64`."""
    strategy = cell.variant or STRATEGIES[cell.strategy].short_title
    repeat = f", repeat {cell.repeat}" if cell.repeat else ""
    return f"{cell.model}, {strategy}, {counted(cell.nodes, 'node')}, batch {cell.batch}{repeat}"


def result_of(file: Path) -> str:
    """Return the result of a cell in words."""
    try:
        record = read_record(file)
    except UserError:
        return "measured"
    if record.result:
        share = record.cell.cluster.share  # as in tables and comparisons
        own = " of the node's own time" if share < 1 else ""
        step_s = share * record.result.elapsed_s / record.result.steps
        return f"{write_number(step_s, 's')} per step{own}"
    return f"{record.status}: {record.failure.reason if record.failure else 'no reason'}"


def named(rule: str, *wildcards: str) -> str:
    """Return a step's name for readers: `prepare dataset fashion_mnist`."""
    return " ".join([rule.replace("_", " "), *wildcards])
