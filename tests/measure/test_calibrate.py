"""A calibration measures the share, links and all-reduces of emulated nodes or hosts."""

import os
from contextlib import nullcontext
from pathlib import Path

import psutil
import pytest
import yaml

import make_calibration as make
import projects
from nodewise.core.errors import UserError
from nodewise.measure import calibrate as measuring
from nodewise.results.calibration import Calibration, read_calibration
from nodewise.results.record import Failure
from quiet import BusyError, when_quiet
from traces import needs_emulated_nodes

SHARE, RATE_MBIT = 0.2, 50
CLUSTER = {"kind": "emulated", "node": {"cpu": SHARE}, "link": {"rate_mbit": RATE_MBIT}}
HOSTS = {"kind": "ssh", "hosts": [f"host{number}" for number in range(1, 6)], "name": "five"}


def write_study(folder: Path, most=8, cluster=CLUSTER) -> Path:
    nodes = [2, most] if most > 2 else [2]
    study = projects.small_study(cluster, strategies={"multi_worker_mirrored": {"nodes": nodes}})
    path = folder / "s.yaml"
    path.write_text(yaml.safe_dump(study))
    return path


def calibrate(folder, **study) -> tuple[Calibration, list[float]]:
    """Calibrate a study; return what was written, and the shown numbers of launches."""
    shown = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "progress", lambda label, total: nullcontext(shown.append))
        config = write_study(folder, **study)
        measuring.calibrate(config, output=folder / "out.json", logs=folder / "logs")
    return read_calibration(folder / "out.json"), shown


@pytest.fixture
def plans(monkeypatch):
    """Replace launches by made-up ones; return the list of their plans."""
    planned = []

    def launch(settings, plan, logs):
        planned.append(plan)
        (one,) = make.calibration((plan.nodes,), repeats=1).launches
        streams = (make.stream("node1", "node2"),) if plan.streams and plan.nodes > 2 else ()
        return measuring.Outcome(
            status="ok", launch=one, streams=streams, kind="emulated soft", network="a"
        )

    monkeypatch.setattr(measuring, "_launch", launch)
    monkeypatch.setattr(measuring.cgroup, "cores", lambda: 2)
    return planned


def test_every_number_of_nodes_is_launched_once_before_any_is_repeated(tmp_path, plans):
    written, shown = calibrate(tmp_path)
    counts = [plan.nodes for plan in plans]
    assert sorted(counts[:4]) == sorted(counts[4:]) == [1, 2, 4, 8]
    assert counts[:4] != sorted(counts[:4]) and counts[:4] != counts[4:]
    assert [launch.nodes for launch in written.launches] == counts
    assert (written.status, written.kind, written.streams) == ("ok", "emulated soft", [])
    assert written.provenance.network == "a"
    assert shown == [*range(1, len(plans) + 1)]
    assert all(plan.streams == (plan.nodes == 2) for plan in plans)


@pytest.mark.parametrize(
    ("most", "cluster", "counts"),
    [
        (4, CLUSTER, {1, 2, 4}),
        (3, CLUSTER, {1, 2, 3}),
        (8, CLUSTER | {"node": {"cpu": 0.5}}, {1, 2, 4}),
        (2, HOSTS, {2, 4, 5}),
    ],
)
def test_the_numbers_of_nodes_follow_from_the_study_and_the_cores(
    tmp_path, plans, most, cluster, counts
):
    written, _ = calibrate(tmp_path, most=most, cluster=cluster)
    assert {plan.nodes for plan in plans} == counts
    if cluster == HOSTS:
        assert {plan.nodes for plan in plans if plan.streams} == {5}
        assert len(written.streams) == 2
        assert "host1" not in (tmp_path / "out.json").read_text()


@pytest.mark.parametrize("cluster", [{"kind": "local"}, {"kind": "slurm"}])
def test_a_study_without_links_is_a_mistake(tmp_path, monkeypatch, cluster):
    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    with pytest.raises(UserError, match=r"s\.yaml: cluster"):
        calibrate(tmp_path, cluster=cluster)


@pytest.mark.parametrize("cluster", [CLUSTER, HOSTS])
def test_a_refusal_is_a_result_of_emulated_nodes_and_a_mistake_with_hosts(
    tmp_path, monkeypatch, cluster
):
    failure = Failure(reason="no CPU cgroup", rank=None, log_tail=[])
    refused = measuring.Outcome(status="refused", failure=failure)
    monkeypatch.setattr(measuring, "_launch", lambda *told: refused)
    (tmp_path / "out.json").write_text("the last result")
    if cluster == HOSTS:
        with pytest.raises(UserError, match="refused: no CPU cgroup; logs"):
            calibrate(tmp_path, most=4, cluster=cluster)
        assert (tmp_path / "out.json").read_text() == "the last result"
    else:
        written, _ = calibrate(tmp_path, cluster=cluster)
        assert (written.status, written.failure) == ("refused", failure)


def leave(settings, plan, logs):
    """Imitate a launch that ends without an outcome."""
    os._exit(1)


@pytest.mark.slow
def test_a_launch_that_ends_without_an_outcome_fails_the_calibration(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "_outcome", leave)
    written, _ = calibrate(tmp_path)
    assert written.status == "failed"
    assert "exit code 1" in written.failure.reason


def calibrated(folder):
    """Return the launches of one and of two emulated nodes, by number of nodes."""
    words = ("calibrate", "--config", str(write_study(folder, most=2)), "--repeats", "1")
    (folder / "models").symlink_to(Path("models").absolute())
    projects.finish(projects.start(folder, "nodewise", *words))
    (out,) = folder.glob("results/*/calibration/calibration.json")
    written = read_calibration(out)
    assert written.failure is None
    for launch in written.launches:
        if launch.conditions.outside:
            raise BusyError("; ".join(launch.conditions.outside))
    return {launch.nodes: launch for launch in written.launches}


@pytest.mark.slow
@pytest.mark.alone
@needs_emulated_nodes
def test_two_emulated_nodes_have_their_share_and_the_link_its_rate(tmp_path_factory):
    launches = when_quiet(lambda: calibrated(tmp_path_factory.mktemp("calibration")))
    one, two = launches[1], launches[2]
    assert [busy.share for busy in one.busy + two.busy] == pytest.approx([SHARE] * 3, rel=0.1)
    assert (one.transfer, one.all_reduces) == (None, [])
    seen = two.conditions  # the host takes time from senders as it takes time from the cores
    taken = seen.stolen_s / (seen.window_s * psutil.cpu_count())
    left = 1e6 * RATE_MBIT * two.transfer.payload_share
    assert 0.9 < two.transfer.payload_share < 0.98
    assert two.transfer.bits_per_s == pytest.approx(left, rel=0.05 + taken)
    assert 0 < two.transfer.round_trip_s < 0.1
    small, *_, large = two.all_reduces
    assert small.payload_bytes == 4_000 and large.payload_bytes >= 4_000_000
    assert small.repeats > large.repeats
    for sent in large.bytes_sent:
        assert sent / large.repeats == pytest.approx(large.payload_bytes, rel=0.01)
    wire_s = large.payload_bytes * 8 / (1e6 * RATE_MBIT)
    assert 0.95 * wire_s < large.seconds_each < 2 * wire_s
