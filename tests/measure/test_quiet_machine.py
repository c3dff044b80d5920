"""A block exceeds a threshold if, and only if, the machine was not quiet. It is repeated then."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import make_records as make
from nodewise.measure import block_job, quiet_machine
from nodewise.results import quiet_thresholds
from nodewise.results.record import Conditions, NodeUsage

NOTHING = dict.fromkeys(NodeUsage.model_fields, 0)


def failed(shares=(), cores=2.0, **changes):
    seen = Conditions.model_validate(make.conditions(10, **changes))
    return quiet_thresholds.failed(seen, shares, cores=cores, host_cores=2)


def node(cpu_s):
    return NOTHING | {"cpu_s": cpu_s}


def test_a_quiet_machine_passes():
    assert failed() == []
    assert failed(shares=[0.2, 0.2], nodes=[node(2.05), node(0.1)]) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"reference_after_us": 6200}, "the reference step changed by 13 % during the block"),
        ({"reference_after_us": 4800}, "the reference step changed by 13 % during the block"),
        ({"stolen_s": 0.5}, "the hypervisor took 2 % of the cores' time (steal time)"),
        ({"foreign_cpu_s": 3.0}, "other processes used 15 % of the cores' time"),
        ({"nodes": [node(2.0), node(3.0)]}, "a node exceeded its share of a core by 50 %"),
    ],
)
def test_each_gate_names_what_failed_it(changes, said):
    (reason,) = failed(shares=[0.2, 0.2] if "nodes" in changes else [], **changes)
    assert reason.startswith(said)


IDLE = SimpleNamespace(remote=False, shares=(), usage=list)  # a cluster that limits no node


def watched(monkeypatch, **spent):
    """Return which thresholds are exceeded after 10 s on 2 cores of a host with 64."""
    at = {"at_s": 0.0, "busy_s": 0.0, "stolen_s": 0.0, "own_s": 0.0}
    readings = iter(
        [quiet_machine._Machine(**at), quiet_machine._Machine(**at | {"at_s": 10.0} | spent)]
    )
    monkeypatch.setattr(quiet_machine, "_machine", lambda: next(readings))
    monkeypatch.setattr(quiet_machine, "reference_us", lambda: 5500)
    monkeypatch.setattr("nodewise.cluster.cgroup.cores", lambda: 2.0)
    monkeypatch.setattr("psutil.cpu_count", lambda: 64)
    return quiet_machine.Watch(IDLE).conditions().outside


def test_foreign_load_is_judged_by_the_cores_that_a_container_has(monkeypatch):
    assert watched(monkeypatch, busy_s=10.0) == ["other processes used 50 % of the cores' time"]
    assert watched(monkeypatch, busy_s=10.0, own_s=9.0) == []
    monkeypatch.setattr(IDLE, "remote", True)  # the nodes are other machines
    assert watched(monkeypatch, busy_s=10.0) == []


def test_what_a_child_used_counts_as_one_s_own_when_it_has_ended():
    before = quiet_machine._machine().own_s
    code = "import time\nwhile time.process_time() < 0.5: pass"
    subprocess.run([sys.executable, "-c", code], check=True)
    assert quiet_machine._machine().own_s - before > 0.4


def test_what_the_host_took_is_judged_by_all_cores_of_the_machine(monkeypatch):
    assert watched(monkeypatch, stolen_s=6.0) == []
    said = "the hypervisor took 10 % of the cores' time (steal time)"
    assert watched(monkeypatch, stolen_s=64.0) == [said]


CLUSTER = SimpleNamespace(apply_limits=lambda: None, lift_limits=lambda: None)
LIMIT_S, BLOCK_S = 600.0, 120.0
RESTLESS = ["the machine's host took 9% of the cores' time"]


@pytest.mark.parametrize(
    ("outside", "most", "limit_s", "blocks"),
    [
        ([RESTLESS, []], 3, LIMIT_S, 2),  # until the machine is quiet
        ([RESTLESS] * 9, quiet_thresholds.MAX_BLOCKS, 1e6, 3),
        ([RESTLESS], 1, LIMIT_S, 1),
        # 360 s of 600 s have passed; another block may take up to 240 s
        ([RESTLESS] * 9, 9, LIMIT_S, 3),
    ],
)
def test_a_block_is_repeated_until_the_machine_is_quiet_within_limits(
    monkeypatch, outside, most, limit_s, blocks
):
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(block_job.time, "monotonic", lambda: now.seconds)
    seen = iter(
        Conditions.model_validate(make.conditions(10) | {"outside": told}) for told in outside
    )
    watch = SimpleNamespace(conditions=lambda: next(seen))
    monkeypatch.setattr(quiet_machine, "Watch", lambda cluster: watch)
    job = block_job.BlockJob(
        CLUSTER, 1, print, logs=Path("logs"), time_limit_s=limit_s, most_blocks=most
    )
    again = True
    while again:
        job.on_meeting("warm", [])
        now.seconds += BLOCK_S
        again = job.on_meeting("timed", [])
    assert len(job.blocks) == blocks
