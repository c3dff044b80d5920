"""`nodewise doctor` reads the kernel's files on every kind of machine and prints clear advice."""

import errno
import json
import os

import pytest
import yaml
from typer.testing import CliRunner

import projects
from nodewise.cli import app
from nodewise.cluster import cgroup, doctor, duty_cycle, namespace
from nodewise.cluster.cgroup import Hierarchy, quota_of
from nodewise.cluster.doctor import Check
from nodewise.core.errors import RefusedError

YES = Check(True, "so it is")
NO = Check(False, "for a reason", "sudo make it so")


@pytest.mark.parametrize(
    ("groups", "version", "own"),
    [
        ("5:cpuset:/\n4:cpu,cpuacct:/a.slice\n0::/b.scope\n", 1, "cpu/a.slice"),
        ("0::/b.scope\n", 2, "b.scope"),
        # A container may see its own part of the tree only, but the path of the whole.
        ("4:cpu,cpuacct:/docker/1f\n", 1, "cpu"),
        ("5:cpuset:/\n4:cpuacct:/\n3:rdma:/cpu\n", None, ""),
    ],
)
def test_the_hierarchy_that_limits_cpu_time_is_found(tmp_path, groups, version, own):
    root, file = tmp_path / "mounts", tmp_path / "groups"
    for folder in ("cpu/a.slice", "b.scope"):
        (root / folder).mkdir(parents=True)
    (root / "cgroup.controllers").write_text("cpu memory\n")
    file.write_text(groups)
    tree = version and Hierarchy(version, root / "cpu" if version == 1 else root, root / own)
    assert cgroup.find_hierarchy(root, file) == tree


def machine(**kinds):
    return dict.fromkeys(("quota", "soft", "private", "links", "latency"), YES) | kinds


def rows(text):
    """Return the yes or no of each kind of cluster in doctor's output."""
    table = text.split("\n\n")[1].splitlines()[1:]
    return [line[21:24].strip() for line in table if not line.startswith(" ")]


def test_without_a_private_network_only_who_accepts_open_ports_gets_nodes(monkeypatch):
    nothing = machine(private=NO, links=NO, latency=NO)
    monkeypatch.delenv(namespace.SHARED_NETWORK, raising=False)
    assert rows(doctor.report(nothing)) == ["no"] * 5
    monkeypatch.setenv(namespace.SHARED_NETWORK, "yes")
    assert rows(doctor.report(nothing)) == ["yes", "yes", "yes", "no", "no"]


@pytest.mark.parametrize(
    ("version", "uid", "command"),
    [
        (1, 1000, "sudo env "),
        (2, 1000, "systemd-run --user --scope -p Delegate=yes "),
        (2, 0, "systemd-run --scope -p Delegate=yes "),
        (None, 0, "docker run --privileged"),
    ],
)
def test_a_machine_without_quotas_is_told_a_command(tmp_path, monkeypatch, version, uid, command):
    def refuse():
        raise OSError("why")

    tree = version and Hierarchy(version, tmp_path, tmp_path)
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(cgroup, "find_base", refuse)
    monkeypatch.setattr(cgroup, "find_hierarchy", lambda: tree)
    check = doctor._try(doctor._quota)
    assert (check.permitted, check.remark) == (False, "why")
    assert check.command.startswith(command)


@pytest.mark.parametrize(
    ("uid", "switches", "command"),
    [
        (
            1000,
            {"kernel.unprivileged_userns_clone": "0", "user.max_net_namespaces": "9"},
            "sudo sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            1000,
            {"user.max_net_namespaces": "0", "user.max_user_namespaces": "0"},
            "sudo sysctl user.max_net_namespaces=10000 user.max_user_namespaces=10000",
        ),
        (1000, {}, namespace.RUN_AS_ROOT),
        (0, {"user.max_user_namespaces": "0"}, namespace.RUN_PRIVILEGED),
    ],
)
def test_a_refused_namespace_says_what_permits_it(monkeypatch, uid, switches, command):
    def refuse(flags):
        raise OSError(errno.EPERM, "")

    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(namespace, "_sysctl", switches.get)
    monkeypatch.setattr(namespace, "_unshare", refuse)
    with pytest.raises(RefusedError) as raised:
        namespace.enter_network_namespace()
    assert raised.value.command == command


@pytest.mark.parametrize("counted", [None, "0 0 0\n"])
def test_a_kernel_that_counts_no_waiting_permits_no_soft_nodes(tmp_path, monkeypatch, counted):
    file = tmp_path / "schedstat"
    if counted:
        file.write_text(counted)
    monkeypatch.setattr(duty_cycle, "_SCHEDSTAT", file)
    check = doctor._try(doctor._soft)
    assert not check.permitted
    assert check.remark.endswith("waits for a core (schedstat)")


def test_the_command_looks_without_tensorflow_and_is_readable_when_piped():
    code = (
        "import json, sys; from nodewise.cli import app; app(['doctor'], standalone_mode=False);"
        "print(json.dumps([m for m in sys.modules if m.split('.')[0] in ('tensorflow', 'keras')]))"
    )
    printed = projects.python("-c", code)
    *text, modules = printed.splitlines()
    assert json.loads(modules) == []
    assert all(len(line) <= 80 for line in text if not line.startswith("    "))
    assert "\x1b" not in printed
    assert rows("\n".join(text))  # There is a table; what it says depends on this machine.


def test_a_host_that_cannot_be_used_does_not_hide_the_hosts_of_other_experiments(
    tmp_path, monkeypatch
):
    study = projects.small_study({"kind": "ssh", "hosts": ["one.invalid"]})
    other = {"kind": "ssh", "name": "Others", "hosts": ["two.invalid"]}
    study["experiments"]["others"] = study["experiments"]["steps"] | {"cluster": other}
    config = tmp_path / "hosts.yaml"
    config.write_text(yaml.safe_dump(study))
    examined = []

    def examine(hosts):
        examined.append(hosts)
        yield f"host {len(examined)}", True

    monkeypatch.setattr(doctor, "examine", examine)
    done = CliRunner().invoke(app, ["doctor", "--config", str(config)])
    assert done.exit_code == 1, done.exception
    assert done.stdout.splitlines()[:2] == ["host 1", "host 2"]


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000\n"}, 1.5),
        ({"cpu.max": "max 100000\n"}, None),
        ({"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"}, 0.5),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, None),
        ({}, None),
    ],
)
def test_the_quota_of_a_group_is_read_in_cores(tmp_path, files, cores):
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert quota_of(tmp_path) == cores


def test_a_container_has_as_many_cores_as_the_tightest_quota_above_it(tmp_path, monkeypatch):
    own = tmp_path / "container/job"
    own.mkdir(parents=True)
    (own / "cpu.max").write_text("max 100000\n")
    (own.parent / "cpu.max").write_text("40000 100000\n")
    monkeypatch.setattr(cgroup, "find_hierarchy", lambda: Hierarchy(2, tmp_path, own))
    assert cgroup.cores() == 0.4
    (own.parent / "cpu.max").write_text("max 100000\n")
    assert cgroup.cores() == len(os.sched_getaffinity(0))
