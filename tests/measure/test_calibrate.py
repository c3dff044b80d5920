"""A calibration of two real emulated nodes measures their share, their link and their bytes."""

import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import get_args

import psutil
import pytest

from nodewise.cluster import cgroup
from nodewise.cluster.kinds.emulated import Emulated, Link, Node
from nodewise.measure.calibrate import _run
from nodewise.measure.calibrate.plan import Block, Plan
from nodewise.measure.environment import settle_environment
from nodewise.results.calibration import Collective, Launch
from traces import GONE_WITHIN_S, needs_emulated_nodes, runs, workers_in_timed_steps

pytestmark = [pytest.mark.slow, pytest.mark.alone, needs_emulated_nodes]

CLUSTER = Emulated(node=Node(cpu=0.2), link=Link(rate_mbit=50))
SMALL, LARGE = 4_000, 1_000_000
PLAN = Plan(
    cluster=CLUSTER,
    nodes=2,
    repeat=0,
    busy_s=1.0,
    pairs=[(0, 1)],
    stream_bytes=6_000_000,
    stream_s=60.0,
    blocks=[
        Block(collective=collective, payload_bytes=size, repeats=repeats, expected_s=expected_s)
        for collective in get_args(Collective)
        for size, repeats, expected_s in ((SMALL, 10, 0.2), (LARGE, 3, 0.6))
    ],
    time_limit_s=60,
)


@pytest.fixture(scope="module")
def launch(tmp_path_factory) -> Launch:
    """Return a launch on a quiet machine; warn if none of six launches was quiet."""
    settle_environment()
    for _ in range(6):
        said = list(_run(PLAN, tmp_path_factory.mktemp("logs")))
        assert "launch" in said[-1], said[-1]
        shares = [message["progress"] for message in said if "progress" in message]
        assert shares == sorted(shares) and shares[-1] == pytest.approx(1)
        seen = Launch.model_validate_json(json.dumps(said[-1]["launch"]))
        if not seen.conditions.outside:
            break
    else:
        warnings.warn(f"no launch at rest: {seen.conditions.outside}", stacklevel=2)
    return seen


def test_busy_nodes_have_their_share(launch):
    assert [busy.share for busy in launch.busy] == pytest.approx([0.2, 0.2], rel=0.1)


def test_the_link_has_its_rate_less_the_headers(launch):
    left = 50e6 * launch.transfer.payload_share
    assert 0.9 < launch.transfer.payload_share < 0.98
    seen = launch.conditions  # The host takes time from senders as it takes time from the cores.
    taken = seen.stolen_s / (seen.window_s * psutil.cpu_count())
    assert launch.transfer.bits_per_s == pytest.approx(left, rel=0.05 + taken)


@pytest.mark.parametrize("collective", get_args(Collective))
def test_two_nodes_send_the_payload_and_take_the_time_of_the_wire(launch, collective):
    small, large = (block for block in launch.all_reduces if block.collective == collective)
    assert (small.payload_bytes, large.payload_bytes) == (SMALL, LARGE)
    for sent in large.bytes_sent:
        assert sent / large.repeats == pytest.approx(LARGE, rel=0.01)
    wire_s = LARGE * 8 / 50e6
    assert 0.95 * wire_s < large.seconds_each < 2 * wire_s
    assert small.seconds_each < large.seconds_each / 3


def test_what_the_launch_ran_under_is_recorded(launch):
    assert launch.conditions.window_s > 2
    assert launch.conditions.reference_before_us > 0


def groups_of(launcher: int) -> list[Path]:
    return list(cgroup.find_base().glob(f"nodewise-{launcher}-*"))


def test_nothing_is_left_of_a_killed_calibration(tmp_path):
    command = ["-m", "nodewise", "calibrate", "--config", "config/emulated.yaml"]
    out = tmp_path / "out.json"
    with subprocess.Popen(
        [sys.executable, *command, "--out", out, "--logs", tmp_path / "logs"],
        env=os.environ | {"OF_TEST": str(tmp_path)},
    ) as calibration:
        # Another cell on this machine may have to finish first.
        workers_in_timed_steps(str(tmp_path), 1, 300)
        children = psutil.Process(calibration.pid).children()
        (launcher,) = (child for child in children if groups_of(child.pid))
        family = psutil.Process(calibration.pid).children(recursive=True)
        calibration.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + GONE_WITHIN_S
    while left := [process for process in family if runs(process.pid)] + groups_of(launcher.pid):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)
    assert not out.exists()
