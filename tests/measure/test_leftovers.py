"""However a cell ends, its record says so in time, nothing is left, and the next one succeeds.

The cells run on emulated nodes, with the real commands, in a copy of the project.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

import projects
from make_horovod import make_horovod
from nodewise.cluster import cgroup
from nodewise.results.record import Record, read_record
from nodewise.strategies.horovod import build as horovod_build
from traces import (
    GONE_WITHIN_S,
    assert_gone,
    needs_emulated_nodes,
    slower,
    traces,
    workers_in_timed_steps,
)

pytestmark = [pytest.mark.slow, pytest.mark.alone, needs_emulated_nodes]

NODES = 3
RING, MPI, HOROVOD = "multi_worker_mirrored", "mpi", "horovod"
CELL = f"steps/fashion_mlp/{{}}/batch~32/nodes~{NODES}/repeat~0"
RECORD = f"results/leftovers/records/{CELL.format(RING)}.json"
DATASET = "results/datasets/fashion_mnist/manifest.json"
ENDLESS, SHORT = 1_000_000, 3

# This is appended to the model file: each worker prints when it builds the model.
TELLING = """
import os as _os

_build = build


def build():
    print("building in", _os.getpid(), flush=True)
    return _build()
"""


def study(steps: int, time_limit_s: float) -> dict:
    small = projects.small_study(
        {"kind": "emulated", "node": {"cpu": 0.2}, "link": {"rate_mbit": 100}},
        name="leftovers",
        models=["fashion_mlp"],
        strategies={strategy: {"nodes": [NODES]} for strategy in (RING, MPI, HOROVOD)},
        batches=[32],
        extent={"warmup_steps": 1, "steps": steps, "split_steps": 0},
    )
    return small | {"cell_time_limit_s": time_limit_s}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return a copy of the project with its dataset prepared."""
    project = projects.copy(tmp_path_factory.mktemp("leftovers") / "project")
    projects.write_study(project, study(SHORT, 60))
    projects.snakemake(project, DATASET)
    return project


@pytest.fixture
def project(prepared, tmp_path):
    """Yield a fresh copy with an endless cell; check afterwards that nothing is left."""
    project = Path(shutil.copytree(prepared, tmp_path / "project", symlinks=True))
    declare(project, ENDLESS)
    before = traces(str(project))
    yield project
    assert_nothing_left(project, before)


def assert_nothing_left(project: Path, before: dict[str, set[str]]) -> None:
    assert_gone(before, str(project))
    # A killed writer may leave its temporary file, which nothing reads.
    assert {name for name in hidden(project) if not name.endswith(".tmp")} <= {".lock"}


def declare(project: Path, steps: int, time_limit_s: float = 60) -> None:
    projects.write_study(project, study(steps, time_limit_s))


def temporary(project: Path) -> Path:
    """Return the folder for temporary files of processes that run in `project`."""
    folder = project.with_name("temporary")
    folder.mkdir(exist_ok=True)
    return folder


def hidden(project: Path) -> set[str]:
    """Return the names of hidden files below the results."""
    return {path.name for path in (project / "results").rglob(".*")}


def start(project: Path, *command: str):
    return projects.start(project, *command, TMPDIR=str(temporary(project)))


def measure(project: Path, strategy: str, built: bool = True):
    """Start measuring the cell of a strategy by hand, with Horovod if it needs that."""
    library = project / horovod_build.FOLDER
    if strategy == HOROVOD and built:
        make_horovod()
        library.symlink_to(horovod_build.FOLDER.absolute())
    what = ("measure-cell", CELL.format(strategy), "--config", projects.CONFIG)
    return start(project, "nodewise", *what)


def finish(project: Path, run, strategy: str = RING) -> Record:
    projects.finish(run)
    return read_record(project / f"results/leftovers/records/{CELL.format(strategy)}.json")


def workers(project: Path) -> list[psutil.Process]:
    return workers_in_timed_steps(str(project), NODES, projects.TIMEOUT_S)


HOLD = """
from nodewise.cluster.lock import exclusive_machine
with exclusive_machine():
    print("held", flush=True)
    input()
"""


def test_a_cell_waits_for_another_on_this_machine_succeeds_and_leaves_nothing(project):
    declare(project, SHORT)
    with subprocess.Popen(
        [sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout.readline() == "held\n"
        run = measure(project, RING)
        said = run.stdout.readline()
        while "waiting for it" not in said:
            assert run.poll() is None, said
            said += run.stdout.readline()
        time.sleep(1)
        assert not list(cgroup.find_base().glob(f"nodewise-{run.pid}"))  # It has no node yet.
        released = datetime.now(UTC)
        holder.communicate("\n")
    record = finish(project, run)
    assert record.status == "ok" and record.started_at >= released, record.failure


@pytest.mark.parametrize(("strategy", "library"), [(MPI, "mpi4py"), (HOROVOD, "horovod")])
def test_ranks_send_what_a_ring_sends_over_the_network(project, strategy, library):
    """With shared memory, which MPI prefers on one machine, the network would carry nothing."""
    declare(project, SHORT)
    record = finish(project, measure(project, strategy), strategy)
    assert record.status == "ok", record.failure
    ring = 2 * (NODES - 1) / NODES * record.result.payload_bytes * record.result.steps
    assert [worker.rank for worker in record.result.workers] == [*range(NODES)]
    for worker in record.result.workers:
        assert ring <= worker.bytes_sent <= 1.02 * ring
    assert library in record.provenance.versions


def test_without_horovod_a_cell_is_refused_and_says_what_would_permit_it(project):
    record = finish(project, measure(project, HOROVOD, built=False), HOROVOD)
    assert record.failure.reason == (
        "Horovod is not built. To allow it, run: nodewise prepare horovod"
    )
    assert record.status == "refused"
    assert not (project / "results/leftovers/logs").exists()  # no worker was started


@pytest.mark.parametrize("strategy", [RING, MPI, HOROVOD])
def test_a_killed_worker_ends_its_cell_within_15_s_and_is_named(project, strategy):
    model = project / "models/fashion_mlp.py"
    model.write_text(model.read_text() + TELLING)
    run = measure(project, strategy)
    killed = workers(project)[2]
    killed.kill()
    began = time.monotonic()
    failure = finish(project, run, strategy).failure
    assert time.monotonic() - began < 15 * slower()
    assert (failure.rank, failure.reason) == (2, "rank 2: killed by SIGKILL")
    assert f"building in {killed.pid}" in failure.log_tail


def test_a_killed_snakemake_takes_everything_along_and_the_next_run_succeeds(project):
    before = traces(str(project))
    run = projects.start_snakemake(project, RECORD, TMPDIR=str(temporary(project)))
    workers(project)
    run.kill()
    run.communicate(timeout=GONE_WITHIN_S)
    assert not (project / RECORD).exists()
    projects.snakemake(project, "--unlock")
    assert_nothing_left(project, before)
    declare(project, SHORT)
    projects.snakemake(project, RECORD, TMPDIR=str(temporary(project)))
    assert read_record(project / RECORD).status == "ok"
    assert not list(temporary(project).iterdir())


def test_ctrl_c_ends_a_launcher_that_hangs_and_all_of_its_cell(project):
    command = ("snakemake", "--configfile", projects.CONFIG, "--cores", "all", RECORD)
    run = start(project, "setsid", *command)  # a separate process group, as in a terminal
    forkserver = workers(project)[0].parent()
    forkserver.parent().suspend()
    os.killpg(run.pid, signal.SIGINT)
    run.communicate(timeout=60)
    assert not (project / RECORD).exists()
