"""What this machine permits root and an ordinary user to do; no trial leaves anything behind."""

import json
import os
import subprocess
import sys
import tempfile
import time
from functools import cache
from pathlib import Path

import psutil
import pytest

import projects
from nodewise.cluster import cgroup, namespace
from nodewise.cluster.worker_state import cpu_s
from quiet import BusyError, when_quiet, with_free_cores
from traces import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.alone]

HERE = Path(__file__).parent
SCRIPT = HERE / "node_job.py"
UID = 12345  # a user id that nobody has
ROOT = os.getuid() == 0
MUST_RUN = "CI" in os.environ and ROOT


LOOK = (
    "import json; from nodewise.cluster import doctor; seen = doctor.look();"
    "print(json.dumps({kind: check._asdict() for kind, check in seen.items()}))"
)


@cache
def found():
    """Return the results of the checks; they run when the first test needs them."""
    return json.loads(subprocess.check_output([sys.executable, "-c", LOOK], text=True, timeout=60))


def needs(kind):
    """Skip a test where `kind` is not permitted, but not for root in continuous integration."""
    condition = f"not MUST_RUN and not found()[{kind!r}]['permitted']"
    return pytest.mark.skipif(condition, reason=f"{kind}: nodewise doctor says why not")


NEEDS_ROOT = pytest.mark.skipif(not ROOT, reason="only root can try what another user may do")


def left():
    """Return what trials or jobs may have left behind, without what running cells use now."""
    groups = {
        str(folder)
        for folder in cgroup.find_hierarchy().mount.rglob("nodewise-*")
        if not psutil.pid_exists(int(folder.name.split("-")[1]))
    }
    links = {link.name for link in Path("/sys/class/net").iterdir()}
    jobs = {  # A namespace lasts as long as its last process.
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if {str(SCRIPT), LOOK} & set(process.info["cmdline"] or [])
    }
    return groups | links | jobs


@pytest.fixture(autouse=True)
def nothing_is_left():
    before = left()
    yield
    wait_until(lambda: not left() - before)


def run(*command, environment=None):
    return json.loads(projects.python(*command, **environment or {}))


def as_user(what, logs="-", namespaces="-", environment=None):
    command = (HERE / "ordinary_user.py", UID, namespaces, SCRIPT, what, logs)
    return run(*command, environment=environment)


@needs("links")
def test_the_links_count_what_passes_them(tmp_path):
    """Headers are counted too, once per large segment: less than 1 %."""
    sender, receiver = run(SCRIPT, "transfer", tmp_path)["counted"]
    for transferred in (sender["sent_bytes"], receiver["received_bytes"]):
        assert transferred == pytest.approx(5_000_000, rel=0.01)
        assert transferred > 5_000_000
    assert sender["received_bytes"] < 100_000  # only acknowledgements
    assert sender["dropped_packets"] == receiver["dropped_packets"] == 0


@needs("links")
def test_what_the_way_to_a_node_refuses_is_counted(tmp_path):
    *senders, receiver = run(SCRIPT, "flood", tmp_path)["counted"]
    for sender in senders:  # a burst, then 1 Mbit/s for one second, however much was sent
        assert 70_000 < sender["sent_bytes"] < 1.5 * (70_000 + 1e6 / 8)
        assert sender["dropped_packets"] == 0  # Drops are counted on the way to a node.
    assert receiver["dropped_packets"] > 0  # Two links' worth of data was sent to one link.


@needs("links")
def test_a_latency_is_passed_once_each_way_or_refused(tmp_path):
    answer = run(SCRIPT, "latency", tmp_path)
    if found()["latency"]["permitted"]:
        (rank0, _) = answer["nodes"]
        assert rank0["round_trip_ms"] == pytest.approx(2 * 20, abs=10)
    else:
        assert answer == {"refused": found()["latency"]["remark"]}


@needs("quota")
def test_a_group_counts_what_its_node_used_and_how_it_was_held_back():
    """With 0.05 cores, the usual period would give a quota below the kernel's minimum."""
    cpu = 0.05
    before, after, spent, elapsed = when_quiet(lambda: in_a_group(cpu))
    assert spent == pytest.approx(cpu * elapsed, rel=0.15, abs=0.02)
    periods = after["periods"] - before["periods"]
    assert periods > 0.5 * 2 / max(0.010, 0.001 / cpu)
    assert after["throttled_periods"] - before["throttled_periods"] > 0.8 * periods
    held_back = after["throttled_s"] - before["throttled_s"]
    assert held_back == pytest.approx((1 - cpu) * elapsed, rel=0.2)


def in_a_group(cpu):
    """Return what a group counts before and after 2 s, and the CPU and wall time between.

    Raises:
        BusyError: the process waited for a core before it was limited.
    """
    groups = cgroup.CpuGroups(cgroup.find_base(), 1)
    with (
        groups.held(),
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy,
    ):
        try:
            groups.put(0, busy.pid)
            time.sleep(0.3)
            used = cpu_s(busy.pid)
            groups.limit(0, cpu)
            before, started, spent = groups.throttled(0), time.monotonic(), cpu_s(busy.pid)
            time.sleep(2)
            after, spent = groups.throttled(0), cpu_s(busy.pid) - spent
            elapsed = time.monotonic() - started
        finally:
            busy.kill()
    if used < 0.2:
        raise BusyError(f"an unlimited process got {used:.2f} s in 0.3 s")
    return before, after, spent, elapsed


@pytest.fixture
def logs():
    """Yield a folder to which any user can write; pytest's own folders belong to root."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)
        yield folder


@NEEDS_ROOT
@needs("soft")
@pytest.mark.parametrize(
    ("namespaces", "environment", "linked"),
    [
        pytest.param("-", {}, True, marks=needs("links")),
        ("0", {namespace.SHARED_NETWORK: "yes"}, False),
    ],
)
def test_a_user_without_a_group_gets_nodes_that_are_stopped_and_continued(
    logs, namespaces, environment, linked
):
    how = (logs, namespaces, environment)
    seen = when_quiet(lambda: with_free_cores(as_user("share", *how)["nodes"]))
    assert [node["kind"] for node in seen] == ["emulated soft"] * 2
    for node in seen:
        assert node["held"] == pytest.approx(0.2, rel=0.1)
        assert ("100 Mbit/s" in node["network"]) == linked
        assert (node["network"] == namespace.NO_EMULATION) != linked


@NEEDS_ROOT
def test_a_user_without_namespaces_is_told_why_and_nothing_listens():
    told = as_user("refused", namespaces="0")
    assert "user.max_user_namespaces" in told["reason"]
    assert told["command"].startswith("sudo sysctl ")


@NEEDS_ROOT
def test_a_user_who_accepts_open_ports_needs_no_namespaces():
    accepted = {namespace.SHARED_NETWORK: "yes"}
    told = as_user("shared", namespaces="0", environment=accepted)
    assert told == {"private": False, "heard": "hello"}
    for other in ("", "no", "1"):
        refused = {namespace.SHARED_NETWORK: other}
        assert as_user("refused", namespaces="0", environment=refused)
