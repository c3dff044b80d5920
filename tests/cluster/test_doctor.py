"""`nodewise doctor` reads the kernel's files on every kind of machine and prints clear advice."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nodewise.cluster import cgroup, doctor, duty_cycle, machine_checks, namespace
from nodewise.cluster.api import NotPermittedError
from nodewise.cluster.cgroup import Hierarchy, has_cpu, parse_hierarchies, quota_of
from nodewise.cluster.machine_checks import Check, Machine

YES = Check(True, "so it is")
NO = Check(False, "for a reason", "sudo make it so")
SYSTEMD_V1 = """\
25 30 0:23 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw
31 25 0:26 / /sys/fs/cgroup ro,nosuid,nodev,noexec shared:9 - tmpfs tmpfs ro,size=4096k,mode=755
32 31 0:27 / /sys/fs/cgroup/unified rw,nosuid,relatime shared:10 - cgroup2 cgroup2 rw,nsdelegate
35 31 0:30 / /sys/fs/cgroup/cpuset rw,relatime shared:16 - cgroup cgroup rw,cpuset
36 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw,relatime master:3 - cgroup cgroup rw,cpu,cpuacct
"""
V2 = "29 22 0:25 / /sys/fs/cgroup rw,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"


def v1(own):
    mount = Path("/sys/fs/cgroup/cpu,cpuacct")
    return Hierarchy(1, mount, mount / own)


def test_version_1_beside_a_version_2_without_controllers():
    cgroup = (
        "5:cpuset:/\n4:cpu,cpuacct:/user.slice\n1:name=systemd:/user.slice/a\n0::/user.slice/a\n"
    )
    unified = Path("/sys/fs/cgroup/unified")
    assert parse_hierarchies(SYSTEMD_V1, cgroup) == [
        v1("user.slice"),
        Hierarchy(2, unified, unified / "user.slice/a"),
    ]


def test_version_2_alone_and_colons_in_a_name():
    mount = Path("/sys/fs/cgroup")
    own = "user.slice/user-1000.slice/user@1000.service/app.slice/a:b.scope"
    assert parse_hierarchies(V2, f"0::/{own}\n") == [Hierarchy(2, mount, mount / own)]


def test_a_container_sees_its_own_part_of_the_tree():
    """Without a cgroup namespace the path is the host's; the container sees only part of it."""
    mountinfo = SYSTEMD_V1.replace("0:31 / ", "0:31 /docker/1f ")
    assert parse_hierarchies(mountinfo, "4:cpu,cpuacct:/docker/1f/job\n") == [v1("job")]
    assert parse_hierarchies(mountinfo, "4:cpu,cpuacct:/docker/1f\n") == [v1("")]
    assert parse_hierarchies(mountinfo, "4:cpu,cpuacct:/elsewhere\n") == [v1("")]
    assert parse_hierarchies(SYSTEMD_V1, "4:cpu,cpuacct:/../../outside\n") == [v1("")]


def test_a_mount_point_with_a_blank_and_one_that_looks_like_the_separator():
    mountinfo = r"36 31 0:31 / /my\040groups/- rw - cgroup cgroup rw,cpu" + "\n"
    (tree,) = parse_hierarchies(mountinfo, "4:cpu:/\n")
    assert tree.mount == Path("/my groups/-")


def test_no_cpu_controller_is_no_hierarchy():
    assert parse_hierarchies(SYSTEMD_V1, "5:cpuset:/\n4:cpuacct:/\n3:rdma:/cpu\n") == []
    assert parse_hierarchies("", "0::/\n4:cpu:/\n") == []


def test_only_what_a_launcher_of_this_pid_namespace_left_is_stale(tmp_path, monkeypatch):
    """Containers may share a cgroup tree although their process ids are unrelated."""
    removed = []
    monkeypatch.setattr(cgroup, "_remove", lambda folder: removed.append(folder.name))
    own, here = cgroup._own_name(), cgroup._pid_namespace()
    gone = f"nodewise-4194303-1-{here}"  # a process id beyond the largest possible one
    of_container = f"nodewise-1-1-{int(here) + 1}"
    for name in (own, gone, of_container, "nodewise-else"):
        (tmp_path / name).mkdir()
    cgroup.remove_stale(tmp_path)
    assert removed == [gone]


def machine(**kinds):
    everything = dict.fromkeys(("quota", "soft", "private", "links", "latency"), YES)
    return Machine(**({"cores": 2} | everything | kinds))


def rows(text):
    """Return the yes or no of each kind of cluster in doctor's output."""
    table = text.split("\n\n")[1].splitlines()[1:]
    return [line[21:24].strip() for line in table if not line.startswith(" ")]


def test_where_all_is_permitted_nothing_is_left_to_do():
    text = doctor.report(machine(), 0.2)
    assert rows(text) == ["yes"] * 5
    assert "permit" not in text.split("why not")[1]
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


def test_whoever_sees_only_a_container_is_told_what_that_means():
    told = "not visible from here"
    assert told in doctor.report(machine(sees_all=False), 0.2)
    assert told not in doctor.report(machine(), 0.2)


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
def test_emulated_nodes_leave_a_tenth_of_the_machine_free(cpu, nodes):
    assert machine().most_nodes(cpu) == nodes


@pytest.fixture
def user(monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.fixture
def unified(tmp_path, monkeypatch):
    """Return a cgroup tree of version 2 with a CPU controller, on a machine with systemd."""
    monkeypatch.setattr(machine_checks, "_SYSTEMD", tmp_path)
    (tmp_path / "cgroup.controllers").write_text("cpuset cpu memory\n")
    return [Hierarchy(2, tmp_path, tmp_path)]


def user_manager(unified, controllers):
    folder = unified[0].mount / "user.slice/user-1000.slice/user@1000.service"
    folder.mkdir(parents=True)
    (folder / "cgroup.controllers").write_text(controllers)


def test_version_1_takes_one_folder_of_the_users(user, tmp_path):
    command = machine_checks.command_for_quota([Hierarchy(1, tmp_path, tmp_path / "session")])
    assert command == f"sudo install -d -o 1000 {tmp_path}/nodewise"


def test_version_2_takes_a_scope_below_the_users_manager(user, unified):
    user_manager(unified, "cpu memory pids\n")
    command = machine_checks.command_for_quota(unified)
    assert command == "systemd-run --user --scope -p Delegate=yes snakemake --cores all"


def test_version_2_takes_delegation_first_where_the_manager_has_no_cpu(user, unified):
    user_manager(unified, "memory pids\n")
    command = machine_checks.command_for_quota(unified)
    assert "Delegate=cpu cpuset memory pids" in command
    assert command.endswith("\nsystemd-run --user --scope -p Delegate=yes snakemake --cores all")
    assert all(len(line) <= 76 for line in command.splitlines())


def test_version_2_takes_a_manager_where_none_runs(user, unified):
    assert machine_checks.command_for_quota(unified).startswith(
        "sudo loginctl enable-linger 1000\n"
    )


def test_root_takes_a_scope_in_version_2(unified, monkeypatch):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    command = machine_checks.command_for_quota(unified)
    assert command == "systemd-run --scope -p Delegate=yes snakemake --cores all"


def test_without_systemd_the_uppermost_group_has_to_give_the_controller(unified, monkeypatch):
    """If it is not the root of the whole tree, as in a container, it must have no processes."""
    mount = unified[0].mount
    monkeypatch.setattr(machine_checks, "_SYSTEMD", mount / "none")
    enable = f"echo +cpu | sudo tee {mount}/cgroup.subtree_control"
    assert machine_checks.command_for_quota(unified).startswith(enable)
    (mount / "cgroup.type").write_text("domain\n")
    command = machine_checks.command_for_quota(unified)
    assert command.startswith(f"sudo mkdir -p {mount}/others\n")
    assert f"\n{enable}\n" in command


def test_nothing_is_advised_where_no_tree_limits_cpu_time():
    assert machine_checks.command_for_quota([]) == ""


def test_a_tree_of_version_2_has_the_controller_or_not(unified):
    mount = unified[0].mount
    assert has_cpu(mount)
    (mount / "cgroup.controllers").write_text("cpuset hugetlb\n")
    assert not has_cpu(mount)
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
    monkeypatch.setattr(cgroup, "hierarchies", lambda: [Hierarchy(2, tmp_path, own)])
    assert cgroup.cores() == 0.4
    (own.parent / "cpu.max").write_text("max 100000\n")
    assert cgroup.cores() == len(os.sched_getaffinity(0))
