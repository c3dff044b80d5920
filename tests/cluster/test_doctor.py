"""`nodewise doctor` reads the kernel's files on every kind of machine and prints clear advice."""

import errno
import json
import os
import subprocess
import sys

import pytest

from nodewise.cluster import cgroup, doctor, duty_cycle, machine_checks, namespace
from nodewise.cluster.api import NotPermittedError
from nodewise.cluster.cgroup import Hierarchy, has_cpu, quota_of
from nodewise.cluster.machine_checks import Check, Machine

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
    return Machine(**(dict.fromkeys(Machine._fields, YES) | kinds))


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(cgroup, "whole_cores", lambda: 2)


def rows(text):
    """Return the yes or no of each kind of cluster in doctor's output."""
    table = text.split("\n\n")[1].splitlines()[1:]
    return [line[21:24].strip() for line in table if not line.startswith(" ")]


def test_where_all_is_permitted_nothing_is_left_to_do(two_cores):
    text = doctor.report(machine(), 0.2)
    assert rows(text) == ["yes"] * 5
    assert "ermit" not in text.split("why not")[1].split("Other processes")[0]
    assert "n up to 2, one core each" in text
    assert "n up to 9 with 0.2 of a core each" in " ".join(text.split())


def test_each_command_is_told_once_whole_and_for_all_that_it_permits():
    command = "sudo " + "x" * 100
    text = doctor.report(machine(latency=NO, links=NO, quota=Check(False, "why", command)), 0.2)
    assert rows(text) == ["yes", "no", "yes", "no", "no"]
    assert text.count("sudo make it so") == 1
    assert "To permit network emulation, latency of links:\n    sudo make it so" in text
    assert f"To permit emulated by quota:\n    {command}\n" in text


def test_what_no_command_permits_is_said_too():
    text = doctor.report(machine(latency=Check(False, "no such module")), 0.2)
    assert "No command permits latency of links here." in text
    assert "no such module" in text


@pytest.mark.parametrize("sees_all", [True, False])
def test_whoever_sees_only_a_container_is_told_what_that_means(monkeypatch, sees_all):
    monkeypatch.setattr(doctor, "_sees_all", lambda: sees_all)
    assert ("not visible from here" in doctor.report(machine(), 0.2)) != sees_all


def test_without_a_private_network_only_who_accepts_open_ports_gets_nodes(monkeypatch):
    nothing = machine(private=NO, links=NO, latency=NO)
    monkeypatch.delenv(namespace.SHARED_NETWORK, raising=False)
    text = doctor.report(nothing, 0.2)
    assert rows(text) == ["no"] * 5
    assert "NODEWISE_SHARED_NETWORK=yes" in text
    monkeypatch.setenv(namespace.SHARED_NETWORK, "yes")
    text = doctor.report(nothing, 0.2)
    assert rows(text) == ["yes", "yes", "yes", "no", "no"]
    assert "loopback, no network emulation" in " ".join(text.split())


@pytest.mark.parametrize(("cpu", "nodes"), [(1, 2), (0.5, 3), (0.2, 9), (0.18, 10), (0.01, 180)])
def test_emulated_nodes_leave_a_tenth_of_the_machine_free(two_cores, cpu, nodes):
    text = " ".join(doctor.report(machine(), cpu).split())
    assert f"n up to {nodes} with {cpu:g} of a core each" in text


@pytest.fixture
def user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.fixture
def unified(tmp_path, monkeypatch):
    """Return a cgroup tree of version 2 with a CPU controller, on a machine with systemd."""
    monkeypatch.setattr(machine_checks, "_SYSTEMD", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory\n")
    return Hierarchy(2, tmp_path, tmp_path)


SCOPE = "systemd-run --user --scope -p Delegate=yes snakemake --cores all"


@pytest.mark.parametrize(
    ("controllers", "root", "commands"),
    [
        ("cpu memory pids\n", False, [SCOPE]),
        ("memory pids\n", False, ["Delegate=cpu cpuset memory pids", SCOPE]),
        ("", True, [SCOPE.replace(" --user", "")]),
    ],
)
def test_version_2_takes_a_scope_that_systemd_delegates(
    user, unified, monkeypatch, controllers, root, commands
):
    mount = unified.mount
    folder = mount / "user.slice/user-1000.slice/user@1000.service"
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text(controllers)
    if root:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    told = machine_checks.command_for_quota(unified)
    assert all(command in told for command in commands)
    assert told.endswith(commands[-1])
    assert all(len(line) <= 76 for line in told.splitlines())


def test_other_machines_take_a_command_of_their_own(user, unified, monkeypatch):
    mount = unified.mount
    command = machine_checks.command_for_quota(Hierarchy(1, mount, mount))
    assert command == f"sudo install -d -o 1000 {mount}/nodewise"
    monkeypatch.setattr(machine_checks, "_SYSTEMD", mount / "none")
    command = machine_checks.command_for_quota(unified)
    assert command.startswith(f"echo +cpu | sudo tee {mount}/cgroup.subtree_control\n")
    assert machine_checks.command_for_quota(None) == ""


def test_a_tree_of_version_2_has_the_controller_or_not(unified):
    mount = unified.mount
    assert has_cpu(mount)
    assert not has_cpu(mount / "none")


@pytest.mark.parametrize(
    ("switches", "reason", "command"),
    [
        (
            {"kernel.unprivileged_userns_clone": "0"},
            "kernel.unprivileged_userns_clone is 0",
            "sudo sysctl kernel.unprivileged_userns_clone=1",
        ),
        (
            {"kernel.apparmor_restrict_unprivileged_userns": "1", "user.max_net_namespaces": "9"},
            "kernel.apparmor_restrict_unprivileged_userns is 1",
            "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        (
            {"user.max_net_namespaces": "0", "user.max_user_namespaces": "0"},
            "user.max_net_namespaces is 0, user.max_user_namespaces is 0",
            "sudo sysctl user.max_net_namespaces=10000 user.max_user_namespaces=10000",
        ),
    ],
)
def test_the_switch_that_forbids_namespaces_is_named(user, monkeypatch, switches, reason, command):
    monkeypatch.setattr(namespace, "_sysctl", switches.get)
    assert namespace._obstacle(OSError(errno.EPERM, "")) == (reason, command)


def test_where_no_namespace_is_left_a_node_is_refused(monkeypatch):
    def full(flags):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(namespace, "_unshare", full)
    monkeypatch.setattr(namespace, "_sysctl", {}.get)
    with pytest.raises(NotPermittedError, match="no network for a node: as many namespaces exist"):
        namespace.enter_network_namespace()


@pytest.mark.parametrize("counted", [None, "0 0 0\n"])
def test_a_kernel_that_counts_no_waiting_permits_no_soft_nodes(tmp_path, monkeypatch, counted):
    file = tmp_path / "schedstat"
    if counted:
        file.write_text(counted)
    monkeypatch.setattr(duty_cycle, "_SCHEDSTAT", file)
    check = machine_checks._soft()
    assert not check.permitted
    assert check.remark.endswith("waits for a core (schedstat)")


def test_root_is_not_told_of_switches_for_users(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(namespace, "_sysctl", {"user.max_user_namespaces": "0"}.get)
    assert namespace._obstacle(OSError(errno.EPERM, ""))[1] == namespace.RUN_PRIVILEGED


def test_the_command_looks_without_tensorflow_in_two_seconds_and_is_readable_when_piped():
    code = (
        "import json, sys; from nodewise.cli import app; app(['doctor'], standalone_mode=False);"
        "print(json.dumps([m for m in sys.modules if m.split('.')[0] in ('tensorflow', 'keras')]))"
    )
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    after = os.times()  # CPU time, not wall time: other tests run at the same time.
    took_s = sum(after[2:4]) - sum(before[2:4])
    assert done.returncode == 0, done.stderr
    *text, modules = done.stdout.splitlines()
    assert json.loads(modules) == []
    assert took_s < 2
    assert all(len(line) <= 80 for line in text if not line.startswith("    "))
    assert "\x1b" not in done.stdout
    assert rows("\n".join(text))  # There is a table; what it says depends on this machine.


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
