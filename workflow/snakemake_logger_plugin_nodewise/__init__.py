"""What `snakemake` prints of a study: a line for each cell and step, and the time left.

Snakemake finds this logger plugin by its name; `profiles/default` chooses it. With `--verbose` it
prints nothing, and Snakemake prints everything itself.
"""

import re
import sys
import textwrap
import time
from dataclasses import dataclass
from logging import LogRecord
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

from nodewise.core.units import write_duration
from snakemake_logger_plugin_nodewise.study import Cells

TARGET = "all"  # the rule that runs nothing
LOG_LINES = 15
LONG_S = 30  # a cell that may take longer is also announced
# What Snakemake says in every run, and readers do not need.
BOILERPLATE = (
    *("Building DAG", "Using shell", "Provided ", "Rules claiming", "Select jobs", "Execute "),
    *("Conda environments", "Singularity containers", "Complete log", "Elapsed time"),
    *("Assuming unrestricted", "Processed ", "Workflow has started", "host:", "Reasons:"),
    *("This was a dry-run", "Some jobs were triggered", "Rules with provenance", "Group jobs"),
    "Shutting down",
)
# What TensorFlow writes when it starts, for instance that it found no GPU.
TENSORFLOW = re.compile(
    r"[IW]\d{4} |WARNING: All log messages before absl|To enable the following instructions"
)
ENDINGS = ("Exiting because a job execution failed", "WorkflowError:\nAt least one job did not")
STOPPING = ("Will exit after finishing", "Terminating processes on user request")
STOPPED = "Stopped on request. What is finished is kept; the same command continues with the rest."


@dataclass
class Job:
    """A step that runs: its name for readers, its cell if it measures one, its log files."""

    name: str
    cell: str | None
    started: float
    bar: Any = None  # its line on a terminal


class LogHandler(LogHandlerBase):
    """Print a study's progress to Snakemake's stream, one line at a time."""

    def __post_init__(self) -> None:
        stream = sys.stdout if self.common_settings.stdout else sys.stderr
        # lines are as long as they are: a file has no width, and a terminal wraps by itself
        self.console = Console(file=stream, highlight=False, soft_wrap=True)
        self.jobs: dict[int, Job] = {}
        self.cells = Cells()
        self.counted = self.failed = self.stopped = False
        self.passed_on: set[str] = set()
        self.bars = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )

    @property
    def writes_to_stream(self) -> bool:
        """Whether this prints: with --verbose Snakemake does."""
        return not self.common_settings.verbose

    @property
    def writes_to_file(self) -> bool:
        """Never: Snakemake keeps its own log."""
        return False

    @property
    def has_filter(self) -> bool:
        """No: Snakemake's own filter heeds --quiet."""
        return False

    @property
    def has_formatter(self) -> bool:
        """Yes: lines are made here."""
        return True

    @property
    def needs_rulegraph(self) -> bool:
        """No."""
        return False

    def emit(self, record: LogRecord) -> None:
        """Print what readers need of an event."""
        if not self.writes_to_stream:
            return
        event = getattr(record, "event", None)
        told = record.__dict__
        match event:
            case LogEvent.WORKFLOW_STARTED:
                self.cells.read(told.get("configfiles") or [])
            case LogEvent.RUN_INFO:
                self.count(told["stats"])
            case LogEvent.JOB_INFO:
                self.start(told)
            case LogEvent.JOB_FINISHED:
                self.finish(told["job_id"])
            case LogEvent.JOB_ERROR:
                self.fail(told)
            case None | LogEvent.ERROR:
                self.pass_on(record)

    def close(self) -> None:
        """Leave the terminal as it was."""
        if self.bars.live.is_started:
            self.bars.stop()
        super().close()

    def say(self, line: str) -> None:
        """Print a line; on a terminal above the lines of what runs."""
        self.console.print(line, markup=False)

    def count(self, stats: dict[str, int]) -> None:
        """Say once how many steps are to be run, and of which kinds."""
        if self.counted:
            return
        self.counted = True
        steps = {name: n for name, n in stats.items() if name not in {TARGET, "total"}}
        self.cells.start(steps.get("measure_cell", 0))
        kinds = (f"{named(name)} ({n})" if n > 1 else named(name) for name, n in steps.items())
        self.say(f"Steps to run: {sum(steps.values())}: {', '.join(kinds)}")

    def start(self, told: dict[str, Any]) -> None:
        """Announce a step; of cells, those that take long."""
        if told["rule_name"] == TARGET:
            return
        wildcards = dict(told["wildcards"])
        cell = wildcards.get("cell")
        name = self.cells.name(cell) if cell else named(told["rule_name"], *wildcards.values())
        if self.common_settings.dryrun:
            reason = told["reason"].partition(":")[0].lower()  # without up to thousands of files
            self.say(f"measure {name}: {reason}" if cell else f"{name}: {reason}")
            return
        job = self.jobs[told["jobid"]] = Job(name, cell, time.monotonic())
        if cell is None:
            self.say(name)
        elif self.cells.expected_s(cell) > LONG_S:
            self.say(f"measuring {name}: about {write_duration(self.cells.expected_s(cell))}")
        if self.console.is_terminal:
            job.bar = self.bars.add_task(name, total=None)
            self.bars.start()

    def finish(self, jobid: int) -> None:
        """Print the result of a cell, and the time left."""
        job = self.end(jobid)
        if job and job.cell:
            result = self.cells.finish(job.cell, time.monotonic() - job.started)
            left = self.cells.left_s()
            ending = f" (about {write_duration(left)} left for cells)" if left else ""
            self.say(f"{self.cells.done}/{self.cells.total} {job.name}: {result}{ending}")

    def fail(self, told: dict[str, Any]) -> None:
        """Name the step that failed and print the end of its log."""
        job = self.end(told["jobid"])
        self.failed = True
        self.say(f"failed: {job.name if job else named(told['rule_name'])}")
        for log in map(Path, told["log"]):
            if lines := last_lines(log):
                self.say(f"  the end of {log}:")
                self.say(textwrap.indent("\n".join(lines), "    "))

    def end(self, jobid: int) -> Job | None:
        """Forget a job that has ended; return it."""
        job = self.jobs.pop(jobid, None)
        if job and job.bar is not None:
            self.bars.remove_task(job.bar)
            if not self.jobs:  # the next command may print for itself
                self.bars.stop()
        return job

    def pass_on(self, record: LogRecord) -> None:
        """Print what Snakemake says, but for what it says in every run."""
        message = str(record.msg or "").strip()
        if not message or message == "None" or message.startswith(BOILERPLATE):
            return
        of_a_job = getattr(record, "exception", "") == "RuleException"
        if of_a_job and "CalledProcessError" in message:
            return  # the step's own error says more
        self.stopped |= message.startswith(STOPPING)
        if message.startswith(ENDINGS):
            if self.stopped:
                message = STOPPED
            elif self.failed:
                return
        if message in self.passed_on:
            return  # of an interrupted run Snakemake says for each step that it will end
        self.passed_on.add(message)
        self.say(message)


def named(rule: str, *wildcards: str) -> str:
    """Return a step's name for readers: `prepare dataset fashion_mnist`."""
    return " ".join([rule.replace("_", " "), *wildcards])


def last_lines(log: Path) -> list[str]:
    """Return the last lines of a log without TensorFlow's, none if there is no log."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line for line in lines if not TENSORFLOW.match(line)][-LOG_LINES:]
