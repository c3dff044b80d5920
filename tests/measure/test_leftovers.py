"""However a cell ends, its record says so in time, nothing is left, and the next one succeeds.

The cells run on emulated nodes, with the real commands, in a copy of the project.
"""

import os
import shutil
import signal
import socket
import time
from datetime import UTC, datetime
from pathlib import Path

import psutil
import pytest

import projects
from local_job import build_library
from nodewise.cluster import cgroup, lock
from nodewise.results.record import Record, read_record
from nodewise.strategies.horovod import build as horovod_build
from traces import GONE_WITHIN_S, assert_gone, needs_emulated_nodes, processes, slower, traces

pytestmark = [pytest.mark.slow, pytest.mark.alone, needs_emulated_nodes]

NODES = 3
RING, MPI, HOROVOD = "multi_worker_mirrored", "mpi", "horovod"
CELL = f"steps/fashion_mlp/{{}}/batch~32/nodes~{NODES}/repeat~0"
RECORD = f"results/leftovers/records/{CELL.format(RING)}.json"
ENDLESS, SHORT = 1_000_000, 3


def declare(project: Path, steps: int) -> None:
    """Declare a study of cells with so many steps."""
    small = projects.small_study(
        {"kind": "emulated", "node": {"cpu": 0.2}, "link": {"rate_mbit": 100}},
        name="leftovers",
        models=["fashion_mlp"],
        strategies={strategy: {"nodes": [NODES]} for strategy in (RING, MPI, HOROVOD)},
        batches=[32],
        extent={"warmup_steps": 1, "steps": steps, "split_steps": 0},
    )
    projects.write_study(project, small | {"cell_time_limit_s": 60})


@pytest.fixture(scope="module")
def prepared(tmp_path_factory):
    """Return a copy of the project with its dataset prepared."""
    project = projects.copy(tmp_path_factory.mktemp("leftovers") / "project")
    declare(project, SHORT)
    projects.snakemake(project, "results/datasets/fashion_mnist/manifest.json")
    return project


@pytest.fixture
def project(prepared, tmp_path, monkeypatch):
    """Yield a fresh copy with an endless cell; check afterwards that nothing is left."""
    project = Path(shutil.copytree(prepared, tmp_path / "project", symlinks=True))
    declare(project, ENDLESS)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))  # of all that runs in the copy
    before = traces(str(project))
    yield project
    assert_nothing_left(project, before)


def assert_nothing_left(project: Path, before: dict[str, set[str]]) -> None:
    assert_gone(before, str(project))
    hidden = {path.name for path in (project / "results").rglob(".*")}
    # A killed writer may leave its temporary file, which nothing reads.
    assert {name for name in hidden if not name.endswith(".tmp")} <= {".lock"}


def measure(project: Path, strategy: str, built: bool = True):
    """Start measuring the cell of a strategy by hand, with Horovod if it needs that."""
    library = project / horovod_build.FOLDER
    if strategy == HOROVOD and built:
        build_library(strategy)
        library.symlink_to(horovod_build.FOLDER.absolute())
    what = ("measure-cell", CELL.format(strategy), "--config", projects.CONFIG)
    return projects.start(project, "nodewise", *what)


def finish(project: Path, run, strategy: str = RING) -> Record:
    projects.finish(run)
    return read_record(project / f"results/leftovers/records/{CELL.format(strategy)}.json")


def workers(project: Path) -> list[psutil.Process]:
    """Wait until the nodes train with limited CPU shares, and return their workers by rank."""
    deadline = time.monotonic() + projects.TIMEOUT_S
    while time.monotonic() < deadline:
        time.sleep(0.2)
        ours = {process.pid for process in processes(str(project))}
        for folder in cgroup.find_base().glob("nodewise-*"):
            if int(folder.name.split("-")[1]) in ours and cgroup.quota_of(folder / "node~0"):
                time.sleep(1)  # the warm-up is one step
                files = [folder / f"node~{rank}/cgroup.procs" for rank in range(NODES)]
                return [psutil.Process(int(file.read_text())) for file in files]
    raise AssertionError("no cell was held to its share")


def test_a_cell_waits_for_another_on_this_machine_succeeds_and_leaves_nothing(project):
    declare(project, SHORT)
    with socket.socket(socket.AF_UNIX) as another:
        while not lock._bound(another):
            time.sleep(0.2)
        run = measure(project, RING)
        said = run.stdout.readline()
        while "waiting for it" not in said:
            assert run.poll() is None, said
            said += run.stdout.readline()
        time.sleep(1)
        assert not list(cgroup.find_base().glob(f"nodewise-{run.pid}"))  # It has no node yet.
        released = datetime.now(UTC)
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
    run = measure(project, strategy)
    workers(project)[2].kill()
    began = time.monotonic()
    failure = finish(project, run, strategy).failure
    assert time.monotonic() - began < 15 * slower()
    assert (failure.rank, failure.reason) == (2, "rank 2: killed by SIGKILL")


def test_a_killed_snakemake_takes_everything_along_and_the_next_run_succeeds(project):
    before = traces(str(project))
    run = projects.start_snakemake(project, RECORD)
    workers(project)
    run.kill()
    run.communicate(timeout=GONE_WITHIN_S)
    assert not (project / RECORD).exists()
    projects.snakemake(project, "--unlock")
    assert_nothing_left(project, before)
    declare(project, SHORT)
    projects.snakemake(project, RECORD)
    assert read_record(project / RECORD).status == "ok"
    assert not list(project.with_name("temporary").iterdir())


def test_ctrl_c_ends_a_launcher_that_hangs_and_all_of_its_cell(project):
    command = ("snakemake", "--configfile", projects.CONFIG, "--cores", "all", RECORD)
    run = projects.start(project, "setsid", *command)  # a separate process group, as in a terminal
    forkserver = workers(project)[0].parent()
    forkserver.parent().suspend()
    os.killpg(run.pid, signal.SIGINT)
    run.communicate(timeout=60)
    assert not (project / RECORD).exists()
