"""Which launches a calibration plans, and what it writes if a launch gives no result."""

import os
from collections import Counter
from pathlib import Path

import pytest
import yaml

import make_calibration as make
from nodewise.cluster.kinds.emulated import Emulated, Link, Node
from nodewise.cluster.kinds.ssh import Ssh
from nodewise.core.errors import UserError
from nodewise.measure import calibrate as measuring
from nodewise.measure.calibrate import MOST_TRIES
from nodewise.measure.calibrate.plan import PAYLOADS, plan_launch, plan_probe
from nodewise.results.calibration import read_calibration
from nodewise.study.config import read_config

CLUSTER = {"kind": "emulated", "node": {"cpu": 0.2}, "link": {"rate_mbit": 100}}


def write_study(folder: Path, most=8, cluster=CLUSTER, straggler=False) -> Path:
    extent = {"warmup_steps": 1, "steps": 4}
    ring = {"multi_worker_mirrored": {"nodes": [2, most]}}
    experiment = {
        "title": "Steps",
        "study": "ntua",
        "models": ["fashion_cnn"],
        "strategies": ring,
        "batches": [32],
        "extent": extent,
    }
    slow = experiment | {
        "strategies": {"multi_worker_mirrored": {"nodes": [5]}},
        "cluster": CLUSTER | {"slow_node": {"rank": 1, "cpu": 0.1}},
    }
    experiments = {"steps": experiment} | ({"slow": slow} if straggler else {})
    study = {"name": "s", "title": "S", "cluster": cluster, "experiments": experiments}
    path = folder / "s.yaml"
    path.write_text(yaml.safe_dump(study))
    return path


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(measuring.cgroup, "cores", lambda: 2)


def calibrate(tmp_path, monkeypatch, answer, **options):
    """Calibrate with launches that only send what `answer` yields; return plans and progress."""
    plans, shares = [], []

    def run(plan, logs):
        plans.append(plan)
        yield from answer(plan)

    if answer is not None:
        monkeypatch.setattr(measuring, "_run", run)
    measuring.calibrate(
        write_study(tmp_path, **options),
        output=tmp_path / "out.json",
        logs=tmp_path / "logs",
        progress=shares.append,
        on_wait=lambda: None,
    )
    return plans, shares


def launched(plan):
    (launch,) = make.calibration((plan.nodes,), repeats=1).launches
    yield {"progress": 0.5}
    about = {"kind": "emulated soft", "network": "a", "cpu_limit": "b"}
    streams = [
        make.stream(f"node{a + 1}", f"node{b + 1}", 10.0 if b == 2 else 100.0)
        for a, b in plan.pairs
    ]
    yield {
        "launch": launch.model_dump(mode="json"),
        "streams": [stream.model_dump(mode="json") for stream in streams],
        "about": about,
    }


def test_every_node_count_is_launched_once_before_any_is_repeated(tmp_path, monkeypatch, two_cores):
    plans, shares = calibrate(tmp_path, monkeypatch, launched)
    counts = [plan.nodes for plan in plans]
    assert sorted(counts[:4]) == sorted(counts[4:]) == [1, 2, 4, 8]
    assert counts[:4] != sorted(counts[:4]) and counts[:4] != counts[4:]
    assert [plan.nodes for plan in calibrate(tmp_path, monkeypatch, launched)[0]] == counts
    written = read_calibration(tmp_path / "out.json")
    assert [launch.nodes for launch in written.launches] == counts
    assert (written.status, written.kind) == ("ok", "emulated soft")
    assert written.provenance.network == "a"
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1)


@pytest.mark.parametrize(
    ("most", "cpu", "counts"),
    [(4, 0.2, {1, 2, 4}), (3, 0.2, {1, 2, 3}), (8, 0.5, {1, 2, 4}), (8, 0.25, {1, 2, 4, 8})],
)
def test_no_more_nodes_than_the_study_has_or_the_cores_carry(
    tmp_path, monkeypatch, two_cores, most, cpu, counts
):
    cluster = CLUSTER | {"node": {"cpu": cpu}}
    plans, _ = calibrate(tmp_path, monkeypatch, launched, most=most, cluster=cluster)
    assert {plan.nodes for plan in plans} == counts


def test_a_straggler_is_calibrated_as_the_cluster_that_it_disturbs(tmp_path):
    study = read_config(write_study(tmp_path, most=4, straggler=True))
    cluster, most = study.calibrated_cluster()
    assert cluster.slow_node is None and most == 5


@pytest.mark.parametrize(
    ("cluster", "said"),
    [
        ({"kind": "local"}, "cluster.kind: must be emulated, ssh or slurm to have links"),
        ({"kind": "slurm"}, "cluster: one host has no link to calibrate: give two hosts or more"),
    ],
)
def test_a_study_without_links_is_told_so(tmp_path, monkeypatch, cluster, said):
    monkeypatch.delenv("SLURM_JOB_NUM_NODES", raising=False)
    config = write_study(tmp_path, cluster=cluster)
    with pytest.raises(UserError, match=f"s.yaml: {said}"):
        measuring.calibrate(
            config, output=tmp_path / "c.json", logs=tmp_path, repeats=1,
            progress=lambda share: None, on_wait=lambda: None,
        )  # fmt: skip


HOSTS = {"kind": "ssh", "hosts": [f"host{number}" for number in range(1, 6)], "name": "five"}


def test_hosts_are_counted_to_the_last_and_planned_by_a_first_look_at_their_links(
    tmp_path, monkeypatch
):
    plans, shares = calibrate(tmp_path, monkeypatch, launched, most=3, cluster=HOSTS)
    first, *rest = plans
    assert (first.nodes, len(first.pairs), first.blocks) == (5, 10, [])
    assert sorted({plan.nodes for plan in rest}) == [2, 4, 5]
    (pair,) = {plan.stream_bytes for plan in rest if plan.nodes == 2}
    assert pair == round(3 * make.stream("a", "b", 100).bits_per_s / 8)
    slow = max(block.payload_bytes for plan in rest if plan.nodes == 4 for block in plan.blocks)
    fast = max(block.payload_bytes for plan in rest if plan.nodes == 2 for block in plan.blocks)
    assert slow < fast  # The link of node3 is slow.
    assert shares == sorted(shares) and shares[-1] == pytest.approx(1)
    streams = read_calibration(tmp_path / "out.json").streams
    assert len(streams) == 10
    assert min(streams, key=lambda stream: stream.bits_per_s).ends == ["node1", "node3"]
    written = (tmp_path / "out.json").read_text()
    assert '"label": "node5"' in written and "host1" not in written


@pytest.mark.parametrize(("hosts", "pairs"), [(2, 1), (8, 28), (9, 9), (64, 64)])
def test_every_pair_of_a_few_hosts_streams_and_neighbours_of_many(hosts, pairs):
    cluster = Ssh.model_validate({"kind": "ssh", "hosts": [f"h{n}" for n in range(hosts)]})
    plan = plan_probe(cluster, hosts, 60)
    assert plan.pairs[0] == (0, 1) and len({*plan.pairs}) == len(plan.pairs) == pairs
    assert {rank for pair in plan.pairs for rank in pair} == {*range(hosts)}
    assert plan.time_limit_s > plan.expected_s


def test_hosts_that_cannot_be_calibrated_are_a_mistake_and_leave_the_last_result(
    tmp_path, monkeypatch
):
    (tmp_path / "out.json").write_text("the last result")
    failure = {"reason": "node2: its host key has changed", "rank": None, "log_tail": []}
    with pytest.raises(UserError, match="refused: node2: its host key has changed; logs"):
        calibrate(
            tmp_path,
            monkeypatch,
            lambda plan: [{"status": "refused", "failure": failure}],
            most=3,
            cluster=HOSTS,
        )
    assert (tmp_path / "out.json").read_text() == "the last result"


def test_a_refusal_is_a_result_with_its_reason(tmp_path, monkeypatch):
    failure = {"reason": "no CPU cgroup", "rank": None, "log_tail": []}
    plans, _ = calibrate(
        tmp_path, monkeypatch, lambda plan: [{"status": "refused", "failure": failure}]
    )
    written = read_calibration(tmp_path / "out.json")
    assert len(plans) == 1
    assert (written.status, written.failure.reason) == ("refused", "no CPU cgroup")


def test_a_machine_too_small_for_one_node_is_a_refusal(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring.cgroup, "cores", lambda: 0.1)
    assert calibrate(tmp_path, monkeypatch, launched) == ([], [])
    written = read_calibration(tmp_path / "out.json")
    assert written.status == "refused"
    assert written.failure.reason == "one node asks for 0.2 of a core, here are 0.1"


def test_a_launch_of_a_restless_machine_is_repeated_up_to_a_limit(tmp_path, monkeypatch, two_cores):
    tries = Counter()

    def restless(plan):
        tries[plan.nodes, plan.repeat] += 1
        for message in launched(plan):
            if "launch" in message and (plan.nodes == 1 or tries[plan.nodes, plan.repeat] == 1):
                message["launch"]["conditions"]["outside"] = ["other processes"]
            yield message

    calibrate(tmp_path, monkeypatch, restless, most=3)
    assert {n: tries[n, 0] for n in (1, 2, 3)} == {1: MOST_TRIES, 2: 2, 3: 2}
    for launch in read_calibration(tmp_path / "out.json").launches:
        assert len(launch.discarded) == (MOST_TRIES - 1 if launch.nodes == 1 else 1)
        assert bool(launch.conditions.outside) == (launch.nodes == 1)


def leave(plan, logs, log, tell):
    """Imitate a launch that ends without a message."""
    log.touch()
    os._exit(1)


def test_a_launch_that_ends_without_a_word_fails_the_calibration(tmp_path, monkeypatch):
    monkeypatch.setattr(measuring, "_in_launch", leave)
    calibrate(tmp_path, monkeypatch, None)
    written = read_calibration(tmp_path / "out.json")
    assert written.status == "failed"
    assert "ended with exit code 1" in written.failure.reason


# --- plans ---


def test_a_plan_repeats_what_is_short_and_leaves_out_what_is_very_long():
    fast = plan_launch(Emulated(), 8, 0, 60)
    repeats = {(block.payload_bytes, block.collective): block.repeats for block in fast.blocks}
    sizes = [size for size in PAYLOADS if size <= 16_000_000]
    assert list(repeats) == [(size, way) for size in sizes for way in ("ring", "direct")]
    assert repeats[4_000, "direct"] > repeats[4_000, "ring"] >= 20
    assert repeats[16_000_000, "ring"] == repeats[16_000_000, "direct"] == 1
    slow = plan_launch(Emulated(node=Node(), link=Link(rate_mbit=1)), 8, 0, 60)
    assert {block.payload_bytes for block in slow.blocks} == {4_000, 64_000}
    assert slow.expected_s < 60 and fast.expected_s < 60


def test_only_two_nodes_stream_and_only_several_all_reduce():
    alone, pair, three = (plan_launch(Emulated(), nodes, 0, 60) for nodes in (1, 2, 3))
    assert (alone.pairs, alone.blocks) == ([], [])
    assert pair.stream_bytes == 37_500_000 and pair.pairs == [(0, 1)] and three.pairs == []
    assert pair.blocks and three.blocks


def test_the_whole_calibration_takes_minutes():
    def minutes(most):
        return (
            2 * sum(plan_launch(Emulated(), n, 0, 60).expected_s for n in range(1, most + 1)) / 60
        )

    assert minutes(8) < 8 and minutes(4) < 4
