"""Cells on hosts with real SSH daemons are measured or refused with a reason; nothing stays."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import distribution, version
from pathlib import Path

import pytest
import ssh_hosts
import yaml

import projects
from mistakes import user_error
from nodewise.cluster import doctor
from nodewise.cluster.kinds.ssh import Ssh
from nodewise.core.units import counted
from nodewise.results.calibration import read_calibration
from nodewise.results.record import read_record
from traces import wait_until

pytestmark = ssh_hosts.MARKS

RATE_MBIT = 200
PREFIX = ssh_hosts.prefix("nw")


@pytest.fixture(scope="module")
def hosts(tmp_path_factory):
    """Return the client configuration for three hosts; two and three are reached through one."""
    with ssh_hosts.daemons(tmp_path_factory.mktemp("ssh")) as (client, _):
        yield client


def cluster(client: Path, there: Path, *names: str, **changes) -> str:
    """Return the settings for `--cluster`; all hosts use the folder `there`."""
    settings = {
        "kind": "ssh",
        # The other hosts reach the gateway by another address than this machine does.
        "hosts": [
            {"host": name, "address": f"{ssh_hosts.NET}.2"} if name == "one" else name
            for name in names
        ],
        "config": str(client),
        "folder": str(there),
        "python": sys.executable,
    }
    return yaml.safe_dump(settings | changes, default_flow_style=True, width=9999).strip()


RATES = """
def slower(epoch, rate):
    return rate / (1 + 9 * epoch)
"""
WITH_OPTIONS = """
import keras
from keras import layers
from rates import slower

def build():
    model = keras.Sequential([keras.Input((12, 12, 1)), layers.Flatten(), layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD(1e-5, momentum=0.9), loss)
    callbacks = [
        keras.callbacks.LearningRateScheduler(slower),
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", min_delta=1e9, patience=1),
    ]
    return model, {"class_weight": {0: 3.0, 2: 0.5}, "callbacks": callbacks}
"""


@pytest.mark.parametrize("strategy", ["multi_worker_mirrored", "keras_jax"])
def test_a_model_of_several_files_with_callbacks_is_measured_on_two_hosts_and_nothing_stays(
    project, hosts, tmp_path, strategy
):
    (project / "with_options.py").write_text(WITH_OPTIONS)
    (project / "rates.py").write_text(RATES)  # The other file imports it.
    settings = cluster(hosts, tmp_path / "there", "one", "two")
    what = "--model with_options.py:build --dataset data/templates/own_data.py:load"
    how = f"--strategy {strategy} --nodes 2 --batch 250 --epochs 3 --out two.json"
    words = [*what.split(), *how.split()]
    projects.finish(projects.start(project, "nodewise", "measure", *words, "--cluster", settings))
    text = (project / "two.json").read_text()
    record = read_record(project / "two.json")
    assert (record.status, record.cell.cluster.kind, record.kind) == ("ok", "ssh", "measured")
    assert "node1" in text
    assert not any(word in text for word in ('one"', 'two"', ssh_hosts.NET, str(hosts)))
    cores = counted(len(os.sched_getaffinity(0)), "thread")  # A host has all cores of this machine.
    assert {worker.device for worker in record.result.workers} == {f"CPU, {cores}"}
    payload = record.result.payload_bytes
    assert all(w.bytes_sent / record.result.steps > 0.9 * payload for w in record.result.workers)
    assert len({epoch.loss for epoch in record.result.epochs}) == 3
    wait_until(lambda: not ssh_hosts.agents(tmp_path / "there"))


def examined(settings: str) -> list[str]:
    """Return the reasons why hosts of a cluster cannot be used."""
    hosts = Ssh.model_validate(yaml.safe_load(settings))
    found = doctor.examine(hosts.take(hosts.known_hosts))
    return [line for line, problem in found if problem]


@contextmanager
def mounted(hosts: Path, name: str, *what: str) -> Iterator[None]:
    """Mount something on one host inside the `with` block; no other host sees it."""
    there = ["ssh", "-F", str(hosts), name]
    subprocess.run([*there, "mount", *what], check=True)
    try:
        yield
    finally:
        subprocess.run([*there, "umount", what[-1]], check=True)


def test_what_is_wrong_with_a_host_is_the_reason_and_names_its_label(project, hosts, tmp_path):
    other, known = ssh_hosts.key(tmp_path / "other"), tmp_path / "known"
    known.write_text(f"[{ssh_hosts.GATEWAY}]:2022 {other.with_suffix('.pub').read_text()}")
    at = f"HostName {ssh_hosts.GATEWAY}"
    mistakes = (
        f"Host wrong\n {at}\n IdentityFile {other}\n"
        f"Host changed\n {at}\n UserKnownHostsFile {known}\n"
        f"Host nobody\n HostName {ssh_hosts.NOBODY}\n ConnectTimeout 2\n"
    )
    right = hosts.read_text().replace("IdentityFile", "Match !originalhost wrong\n IdentityFile")
    client = tmp_path / "client"
    client.write_text(mistakes + right)
    said = examined(cluster(client, tmp_path / "there", "wrong", "changed", "nobody"))
    assert len(said) == 3
    assert said[0].startswith("node1: node1: Permission denied")
    assert said[1] == "node2: its host key has changed"
    assert said[2].startswith("node3: ssh: connect to host node3 port 2022: ")
    client.write_text("Nonsense yes\n")
    told = user_error(examined, cluster(client, tmp_path / "there", "nobody"))
    assert told.endswith("it cannot read its configuration")


def test_doctor_examines_each_host(project, hosts, tmp_path):
    study = (project / "config/smoke.yaml").read_text()
    settings = cluster(hosts, tmp_path / "there", "one", "two", "three")
    (project / "hosts.yaml").write_text(study.replace("{kind: local}", settings))
    said = projects.finish(projects.start(project, "nodewise", "doctor", "--config", "hosts.yaml"))
    labels = [line[:5] for line in said.splitlines() if " cores, " in line]
    assert labels == ["node1", "node2", "node3"]
    missing = examined(settings.replace(sys.executable, "no/python"))
    assert len(missing) == 3
    assert all(": has no no/python; run there: cd " in line for line in missing)


def test_the_links_between_hosts_are_calibrated_and_name_no_host(project, hosts, tmp_path):
    there = tmp_path / "there"
    settings = yaml.safe_load(cluster(hosts, there, "one", "two", "three", name="the hosts"))
    settings["hosts"][1] = {"host": "two", "label": "the second"}
    strategies = {"multi_worker_mirrored": {"nodes": [2]}}
    study = projects.small_study(settings, "linked", strategies=strategies)
    (project / "linked.yaml").write_text(yaml.safe_dump(study))
    words = ("nodewise", "calibrate", "--config", "linked.yaml", "--repeats", "1")
    run = projects.start(project, *words)
    with ssh_hosts.limited(f"{PREFIX}2", RATE_MBIT):
        said = projects.finish(run)
    path = project / "results/linked/calibration/calibration.json"
    found = read_calibration(path)
    assert (found.kind, found.cluster.label) == ("measured", "the hosts")
    assert [host.label for host in found.cluster.hosts] == ["node1", "the second", "node3"]
    assert not any(word in path.read_text() for word in ('"one', ssh_hosts.NET, str(hosts)))
    fast, slow, also_slow = (stream.bits_per_s for stream in found.streams)
    assert [slow, also_slow] == pytest.approx([1e6 * RATE_MBIT] * 2, rel=0.15)
    assert found.streams[0].ends == ["node3", "node1"] and fast > 3 * slow
    assert "the slowest link: " in said and "the second" in said
    (launch,) = (one for one in found.launches if one.nodes == 2)
    assert 0 < found.streams[1].round_trip_s < 0.01
    longest = max(launch.all_reduces, key=lambda block: block.payload_bytes)
    assert longest.payload_bytes >= 4_000_000
    expected = pytest.approx(longest.payload_bytes / 1e6, rel=0.3)
    assert longest.seconds_each * RATE_MBIT / 8 == expected
    wait_until(lambda: not ssh_hosts.agents(tmp_path / "there"))


def test_doctor_says_which_host_has_another_version_or_a_full_disk(hosts, tmp_path):
    files = distribution("tensorflow").files
    (metadata,) = [file.locate() for file in files if file.name == "METADATA"]
    (tmp_path / "other").write_text("Metadata-Version: 2.1\nName: tensorflow\nVersion: 2.20.0\n")
    (tmp_path / "full").mkdir()
    full = ("-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path / "full"))
    with (
        mounted(hosts, "two", "--bind", str(tmp_path / "other"), str(metadata)),
        mounted(hosts, "three", *full),
    ):
        other, no_space = examined(cluster(hosts, tmp_path / "full", "two", "three"))
    assert other.startswith(f"node1: has tensorflow 2.20.0, here is {version('tensorflow')}; run ")
    assert no_space.startswith("node2: ") and "No space left on device" in no_space
