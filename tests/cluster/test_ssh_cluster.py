"""Cells on hosts behind real SSH daemons: measured, refused with the reason, nothing left over."""

import os
import signal
import sys
import time
from pathlib import Path

import pytest
import ssh_hosts
import yaml

import projects
from nodewise.results.record import read_record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.alone,
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]
OWN = "--model models/templates/own_model.py:build --dataset data/templates/own_data.py:load"


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Return the client's configuration for hosts one, two and three."""
    folder = tmp_path_factory.mktemp("ssh")
    with (
        ssh_hosts.network(3, f"nw{os.getpid() % 1000}") as namespaces,
        ssh_hosts.daemons(folder, namespaces) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return projects.copy(tmp_path_factory.mktemp("here") / "project")


def cluster(client: Path, there: Path, *names: str, **changes) -> str:
    """Return the settings for `--cluster`; all hosts share the folder `there`."""
    settings = {
        "kind": "ssh",
        "hosts": list(names),
        "config": str(client),
        "folder": str(there),
        "python": sys.executable,
    }
    return yaml.safe_dump(settings | changes, default_flow_style=True, width=9999).strip()


def start(project, settings: str, out: str, how="--nodes 2 --steps 4"):
    words = f"{OWN} --strategy multi_worker_mirrored --batch 32 {how} --out {out}".split()
    return projects.start(project, "nodewise", "measure", *words, "--cluster", settings)


def test_a_cell_on_two_hosts_and_nothing_stays(project, hosts, tmp_path):
    run = start(project, cluster(hosts, tmp_path / "there", "one", "two"), "two.json")
    said = projects.finish(run)
    assert run.returncode == 0, said
    text = (project / "two.json").read_text()
    record = read_record(project / "two.json")
    assert (record.status, record.cell.cluster.kind, record.kind) == ("ok", "ssh", "measured")
    assert "node1" in text
    assert not any(word in text for word in ('one"', 'two"', ssh_hosts.NET, str(hosts)))
    payload = record.result.payload_bytes
    assert all(w.bytes_sent / record.result.steps > 0.9 * payload for w in record.result.workers)
    assert ssh_hosts.running("nodewise.measure.agent") == []


def test_what_is_wrong_with_a_host_is_the_reason_and_names_its_label(project, hosts, tmp_path):
    other = ssh_hosts.key(tmp_path / "other")
    wrong = tmp_path / "wrong_key"
    text = hosts.read_text()
    wrong.write_text(text.replace(str(hosts.parent / "user"), str(other)))
    changed = tmp_path / "changed_key"
    (tmp_path / "known").write_text(
        f"[{ssh_hosts.NET}.2]:2022 {other.with_suffix('.pub').read_text()}"
    )
    changed.write_text(text.replace(str(hosts.parent / "known"), str(tmp_path / "known")))
    nobody = tmp_path / "nobody"
    nobody.write_text(text.replace(f"{ssh_hosts.NET}.2", f"{ssh_hosts.NET}.77"))
    folder = tmp_path / "there"
    cases = {
        "wrong": (cluster(wrong, folder, "one"), "node1: root@node1: Permission denied"),
        "changed": (cluster(changed, folder, "one"), "node1: its host key has changed"),
        "nobody": (cluster(nobody, folder, "one"), "node1: ssh: connect to host node1 port 2022: "),
        "port": (cluster(hosts, folder, "one", ports=[2022, 2022]), "node1: port 2022 is taken"),
        "python": (cluster(hosts, folder, "one", python="no/python"), "node1: has no no/python"),
    }
    for name, (settings, reason) in cases.items():
        run = start(project, settings, f"{name}.json", "--nodes 1 --steps 4")
        said = projects.finish(run)
        assert run.returncode == 1, said
        record = read_record(project / f"{name}.json")
        assert record.status == "refused"
        assert record.failure.reason.startswith(reason), (name, record.failure.reason)
        assert ssh_hosts.NET not in (project / f"{name}.json").read_text()


def test_nothing_stays_on_a_host_when_the_command_is_killed(project, hosts, tmp_path):
    run = start(
        project,
        cluster(hosts, tmp_path / "there", "one", "two"),
        "k.json",
        "--nodes 2 --epochs 999",
    )
    deadline = time.monotonic() + 60
    while len(ssh_hosts.running("-m nodewise.measure.agent")) < 8:
        # on two hosts each: the client, the agent, its guard and the worker
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    run.send_signal(signal.SIGKILL)
    run.wait()
    deadline = time.monotonic() + 20
    while left := ssh_hosts.running("nodewise.measure.agent"):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_doctor_examines_each_host(project, hosts, tmp_path):
    study = (project / "config/smoke.yaml").read_text()
    settings = cluster(hosts, tmp_path / "there", "one", "two", "three")
    for python, code in ((sys.executable, 0), ("no/python", 1)):
        (project / "hosts.yaml").write_text(
            study.replace("{kind: local}", settings.replace(sys.executable, python))
        )
        run = projects.start(project, "nodewise", "doctor", "--config", "hosts.yaml")
        said = projects.finish(run)
        assert run.returncode == code, said
        lines = [line for line in said.splitlines() if line.startswith("node")]
        wanted = " cores, " if code == 0 else ": has no no/python; to repair it, there: cd "
        assert all(f"node{n}" in line for n, line in enumerate(lines, 1)), said
        assert len(lines) == 3 and all(wanted in line for line in lines), said


def test_a_host_whose_network_is_cut_fails_the_cell_and_keeps_nothing(project, hosts, tmp_path):
    how = "--nodes 2 --epochs 99"
    run = start(project, cluster(hosts, tmp_path / "there", "one", "two"), "cut.json", how)
    deadline = time.monotonic() + 60
    while len(ssh_hosts.running("-m nodewise.measure.agent")) < 8:
        assert run.poll() is None and time.monotonic() < deadline
        time.sleep(0.1)
    with ssh_hosts.cut(f"nw{os.getpid() % 1000}2"):
        said = projects.finish(run)
        assert run.returncode == 1, said
        record = read_record(project / "cut.json")
        assert record.status == "failed", said
        assert "node" in record.failure.reason
        deadline = time.monotonic() + 30
        while left := ssh_hosts.running("nodewise.measure.agent"):
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
