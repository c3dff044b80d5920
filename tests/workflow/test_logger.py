"""What `snakemake` prints: a line for each cell and step, the remaining time, failed steps."""

import logging
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest
from snakemake_interface_logger_plugins.common import LogEvent

import make_records as make
import snakemake_logger_plugin_nodewise as plugin
from nodewise.core.units import write_number
from nodewise.results.tables import build_tables
from nodewise.study.config import Config, read_config


@dataclass
class Settings:
    stdout: bool = True
    verbose: bool = False
    dryrun: bool = False


CONFIG = Path("config/smoke.yaml")
RULES = {"prepare_dataset": 1, "measure_cell": 8, "build_tables": 1, "all": 1, "total": 11}


def log(handler, message=None, event=None, **fields):
    record = logging.makeLogRecord({"msg": message, "levelno": logging.INFO, **fields})
    if event is not None:
        record.event = event
    handler.handle(record)


def started(**settings):
    """Return a logger of a run that measures the smoke study."""
    handler = plugin.LogHandler(Settings(**settings), None)
    log(handler, event=LogEvent.WORKFLOW_STARTED, configfiles=[str(CONFIG)])
    log(handler, event=LogEvent.RUN_INFO, stats=RULES)
    return handler


def start_job(handler, jobid, rule, reason="Missing output files: x", **wildcards):
    fields = {"jobid": jobid, "rule_name": rule, "wildcards": wildcards, "reason": reason}
    log(handler, event=LogEvent.JOB_INFO, **fields)


@pytest.fixture
def cells(tmp_path, monkeypatch):
    """Return the cells of the smoke study, none of which has a record yet."""
    cells = read_config(CONFIG).cells()
    monkeypatch.setattr(Config, "results", property(lambda study: tmp_path / study.name))
    return cells


def test_a_measured_cell_is_a_line_with_its_step_time_and_the_time_left(capsys, cells, tmp_path):
    handler = started()
    first, second, *_ = cells
    make.write([make.record(first), make.failed(second, "no room")], tmp_path / "smoke/records")
    for jobid, cell in enumerate((first, second)):
        start_job(handler, jobid, "measure_cell", cell=cell.id)
        log(handler, event=LogEvent.JOB_FINISHED, job_id=jobid)
    _, one, two = capsys.readouterr().out.splitlines()
    nodes = "1 node" if first.nodes == 1 else f"{first.nodes} nodes"
    told = rf"1/8 {first.model}, .*, {nodes}, batch {first.batch}: .* ms per step \(about .*\)"
    assert re.fullmatch(told, one) and one.endswith("left for cells)")
    assert two.startswith(f"2/8 {second.model}, ") and ": failed: no room" in two


def test_the_step_of_an_emulated_node_is_in_its_own_time_as_in_the_tables(tmp_path):
    cell = make.cell(cluster={"kind": "emulated", "node": {"cpu": 0.2}})
    (file,) = make.write([make.record(cell)], tmp_path)
    step_s = build_tables([file])["cells"]["step_time_s"].iloc[0]
    own = f"{write_number(step_s, 's')} per step of the node's own time"
    assert plugin.result_of(Path(file)) == own


def test_a_failed_step_is_named_with_the_end_of_its_log(capsys, cells, tmp_path, monkeypatch):
    file = tmp_path / "build_tables.log"
    file.write_text("\n".join(f"line {number}" for number in range(1, 101)))
    handler = started()
    start_job(handler, 2, "build_tables")
    fields = {"jobid": 2, "rule_name": "build_tables", "log": [str(file)]}
    log(handler, "Error", event=LogEvent.JOB_ERROR, **fields)
    log(handler, "Exiting because a job execution failed. Look above for error messages")
    lines = capsys.readouterr().out.splitlines()
    head = lines[-plugin.LOG_LINES - 2 : -plugin.LOG_LINES]
    assert head == ["failed: build tables", f"  the end of {file}:"]
    assert lines[-1] == "    line 100"
    monkeypatch.setattr("shutil.disk_usage", lambda folder: SimpleNamespace(free=0))
    log(handler, "Error", event=LogEvent.JOB_ERROR, **fields)
    assert capsys.readouterr().out.splitlines()[-1] == f"  the disk of {tmp_path} is full"


def test_what_snakemake_says_is_printed_once_without_its_boilerplate(capsys, cells):
    handler = started()
    log(handler, "Building DAG of jobs...")
    log(handler, "LockException:\nuse --unlock", event=LogEvent.ERROR, exception="LockException")
    for _ in range(3):
        log(handler, WILL_EXIT)
    _, *lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["LockException:", "use --unlock"]
    assert "".join(lines).count("Will exit") == 1


WILL_EXIT = "Will exit after finishing currently running jobs (scheduler)."
TERMINATING = "Terminating processes on user request, this might take some time."


@pytest.mark.parametrize("stopping", [WILL_EXIT, TERMINATING])
def test_a_run_that_was_stopped_does_not_end_as_if_something_had_failed(capsys, cells, stopping):
    handler = started()
    ending = "WorkflowError:\nAt least one job did not complete successfully."
    log(handler, stopping)
    fields = {"jobid": 1, "rule_name": "measure_cell", "log": []}
    log(handler, "Error", event=LogEvent.JOB_ERROR, **fields)  # Ctrl-C ended it, too
    log(handler, ending, event=LogEvent.ERROR, exception="WorkflowError")
    assert capsys.readouterr().out.splitlines()[1:] == [stopping, plugin.STOPPED]


def test_a_dry_run_is_a_line_for_each_step_however_many_files_it_names(capsys, cells):
    handler = started(dryrun=True)
    start_job(handler, 1, "build_tables", reason=f"Updated input files: {'a.json, ' * 10_000}")
    start_job(handler, 2, "measure_cell", cell=cells[0].id)
    _, tables, cell = capsys.readouterr().out.splitlines()
    assert tables == "build tables: updated input files"
    assert cell.startswith(f"measure {cells[0].model}, ")
    assert cell.endswith(": missing output files")


def error_of_snakemake(folder, *arguments):
    """Run Snakemake on one rule; return the line that says why it failed."""
    (folder / "Snakefile").write_text("rule all:\n    output: 'out'\n    shell: 'touch out'\n")
    command = [sys.executable, "-m", "snakemake", "--cores", "1", "--logger", "nodewise"]
    command += arguments
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    return next(line for line in done.stderr.splitlines() if "[Errno" in line)


def test_a_folder_in_which_snakemake_cannot_write_is_one_line_with_the_file(tmp_path):
    (tmp_path / ".snakemake").mkdir()
    (tmp_path / ".snakemake/locks").write_text("a file where a folder belongs")
    line = error_of_snakemake(tmp_path)
    assert line.startswith("[Errno ") and ".snakemake/locks" in line and plugin.DISK in line


@pytest.mark.parametrize("files", ["study.yaml lost/a.json", "lost/a.json"])
def test_a_target_that_is_read_as_a_configuration_is_one_line_that_says_so(tmp_path, files):
    (tmp_path / "study.yaml").write_text("name: study")
    line = error_of_snakemake(tmp_path, "--configfile", *files.split())
    assert "'lost/a.json'" in line and plugin.NO_CONFIG in line and plugin.DISK not in line


def test_verbose_leaves_it_all_to_snakemake(capsys, cells):
    assert not started(verbose=True).writes_to_stream
    assert capsys.readouterr().out == ""


def test_a_study_that_cannot_be_read_stops_no_line(capsys, tmp_path):
    config = tmp_path / "study.yaml"
    config.write_text("name: 1")
    handler = plugin.LogHandler(Settings(), None)
    log(handler, event=LogEvent.WORKFLOW_STARTED, configfiles=[str(config)])
    log(handler, event=LogEvent.RUN_INFO, stats={"measure_cell": 1})
    start_job(handler, 1, "measure_cell", cell="a/b/c")
    log(handler, event=LogEvent.JOB_FINISHED, job_id=1)
    assert capsys.readouterr().out.splitlines()[-1] == "1/1 a/b/c: measured"


def test_a_study_of_committed_records_has_no_cells_to_measure():
    assert plugin.plan(Path("config/published.yaml")) == {}
