"""Hosts for tests: real SSH daemons in network namespaces, on one private network.

Names contain the process id of the test run. Therefore a run can remove what a killed run left
behind, and two runs on one machine do not disturb each other. Each private network has its own
bridge, so that all of them may use the same addresses. The link to this machine uses addresses that
differ between runs.
"""

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_network
from pathlib import Path

import psutil
import pytest
from pyroute2 import IPRoute, NetlinkError, NetNS, netns

from traces import wait_until

MARKS = [
    pytest.mark.slow,
    pytest.mark.alone,  # a browser of other tests occupies the event loop that sets up the network
    pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root"),
]
NET = "10.211.7"
_OWN = 16 * (os.getpid() % 8192)
# Addresses reserved for tests of networks (RFC 2544): 16 for each run.
HERE, GATEWAY, NOBODY = (str(ip_network("198.18.0.0/15")[_OWN + last]) for last in (1, 2, 13))
_NAMES = re.compile(r"(?:nw|sl)(\d+)-\w+")
_DIES_WITH_US = ("setpriv", "--pdeathsig", "KILL")
_PORT = 2022
_TOP = 0xFFFFFFFF  # TC_H_ROOT of linux/pkt_sched.h


def key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


def prefix(kind: str) -> str:
    """Return the prefix of names of this run's namespaces and interfaces; `kind` is nw or sl."""
    return f"{kind}{os.getpid()}-"


def start(log: Path, *command: str) -> "subprocess.Popen[bytes]":
    """Start a daemon that ends with this process, however this process ends."""
    with log.open("ab") as file:
        return subprocess.Popen([*_DIES_WITH_US, *command], stdout=file, stderr=file)


def _remove(chosen: Callable[[str], bool]) -> None:
    """Remove the namespaces and interfaces whose names are chosen."""
    for name in filter(chosen, netns.listnetns()):
        kill_all(name)
        netns.remove(name)
    with IPRoute() as here:
        for link in here.get_links():
            if chosen(link.get_attr("IFLA_IFNAME")):
                with suppress(NetlinkError):  # Removed together with its other end.
                    here.link("del", index=link["index"])


def _is_stale(name: str) -> bool:
    """Return whether a namespace or an interface is of a run that was killed."""
    found = _NAMES.fullmatch(name)
    return found is not None and not psutil.pid_exists(int(found[1]))


@contextmanager
def network(hosts: int, prefix: str, net: str = NET) -> Iterator[list[str]]:
    """Create a private network; yield the namespace of each host.

    The hosts have the addresses `net`.2, `net`.3, ….
    """
    _remove(_is_stale)
    names = [f"{prefix}{number}" for number in range(1, hosts + 1)]
    bridge = f"{prefix}br"
    with IPRoute() as here:
        try:
            here.link("add", ifname=bridge, kind="bridge")
            at = here.link_lookup(ifname=bridge)[0]
            here.link("set", index=at, state="up")
            for number, name in enumerate(names, 2):
                netns.create(name)
                end = _plug(here, name, f"{name}a", "eth0", f"{net}.{number}")
                here.link("set", index=end, master=at)
            yield names
        finally:
            _remove(lambda name: name.startswith(prefix))


@contextmanager
def _gateway(namespace: str) -> Iterator[None]:
    """Connect this machine to one host only; the host has the address GATEWAY."""
    with IPRoute() as here:
        index = _plug(here, namespace, f"{namespace}g", "eth1", GATEWAY, 28)
        here.addr("add", index=index, address=HERE, prefixlen=28)
        try:
            yield
        finally:
            here.link("del", index=index)


def _plug(
    here: IPRoute, namespace: str, ours: str, theirs: str, address: str, prefixlen: int = 24
) -> int:
    """Create a veth pair between this machine and a namespace; return the index of our end.

    The end in the namespace has `address`.
    """
    peer = {"ifname": theirs, "net_ns_fd": namespace}
    here.link("add", ifname=ours, kind="veth", peer=peer)
    with NetNS(namespace) as there:
        index = there.link_lookup(ifname=theirs)[0]
        there.addr("add", index=index, address=address, prefixlen=prefixlen)
        for interface in ("lo", theirs):
            there.link("set", index=there.link_lookup(ifname=interface)[0], state="up")
    index = int(here.link_lookup(ifname=ours)[0])
    here.link("set", index=index, state="up")
    return index


def processes(namespace: str) -> list[psutil.Process]:
    """Return the processes of a host."""
    there, found = Path(f"/var/run/netns/{namespace}").stat().st_ino, []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if Path(f"/proc/{process.pid}/ns/net").stat().st_ino == there:
                found.append(process)
    return found


def kill_all(namespace: str) -> None:
    """Kill all processes of a host, as if it lost power."""
    for process in processes(namespace):
        with suppress(psutil.Error):
            process.kill()


@contextmanager
def cut(namespace: str, link: str = "a") -> Iterator[None]:
    """Disconnect a host from the network inside the `with` block."""
    with IPRoute() as here:
        index = here.link_lookup(ifname=f"{namespace}{link}")[0]
        here.link("set", index=index, state="down")
        try:
            yield
        finally:
            here.link("set", index=index, state="up")


@contextmanager
def limited(namespace: str, rate_mbit: int) -> Iterator[None]:
    """Limit the rate of a host's link in both directions inside the `with` block."""
    with IPRoute() as here, NetNS(namespace) as there:
        ends = [(here, f"{namespace}a"), (there, "eth0")]
        for at, name in ends:
            (index,) = at.link_lookup(ifname=name)
            rate = f"{rate_mbit}mbit"
            at.tc("add", "tbf", index, 0x10000, rate=rate, burst=1 << 18, latency="200ms")
        try:
            yield
        finally:
            for at, name in ends:
                at.tc("del", index=at.link_lookup(ifname=name)[0], parent=_TOP)


@contextmanager
def daemons(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """Start an SSH daemon on each of three hosts; yield a client's configuration, the namespaces.

    The client reaches hosts two and three through host one.
    """
    with network(3, prefix("nw")) as namespaces, _gateway(namespaces[0]):
        yield from _served(folder, namespaces)


def _served(folder: Path, namespaces: list[str]) -> Iterator[tuple[Path, list[str]]]:
    user = key(folder / "user")
    (folder / "authorized").write_text(user.with_suffix(".pub").read_text())
    host = key(folder / "host")
    addresses = [GATEWAY, *(f"{NET}.{number}" for number in range(3, 5))]
    public = host.with_suffix(".pub").read_text()
    (folder / "known").write_text("".join(f"[{at}]:{_PORT} {public}" for at in addresses))
    (folder / "sshd").write_text(
        f"Port {_PORT}\nHostKey {host}\nUsePAM no\nPidFile none\nStrictModes no\n"
        f"Banner {folder / 'known'}\n"  # any text, which every connection prints first
        f"AuthorizedKeysFile {folder / 'authorized'}\nPermitRootLogin yes\n"
    )
    names = ["one", "two", "three"]
    aliases = [f"Host {name}\n HostName {at}\n" for name, at in zip(names, addresses, strict=True)]
    (folder / "client").write_text(
        f"{''.join(aliases)}Host two three\n ProxyJump one\n"
        f"Host *\n Port {_PORT}\n User root\n IdentitiesOnly yes\n"
        f" UserKnownHostsFile {folder / 'known'}\n IdentityFile {user}\n"
    )
    # sshd needs a folder in /run: mount a separate /run for each host.
    serve = 'mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f "$0"'
    started = []
    try:
        for name in namespaces:
            netns_file = f"/var/run/netns/{name}"
            command = ["nsenter", f"--net={netns_file}", "unshare", "-m", "sh", "-c", serve]
            started.append(start(folder / f"{name}.log", *command, str(folder / "sshd")))
        wait_until(lambda: all(_answers(folder / "client", name) for name in names))
        yield folder / "client", namespaces
    finally:
        for daemon in started:
            daemon.kill()
            daemon.wait()


def _answers(config: Path, name: str) -> bool:
    command = ["ssh", "-F", str(config), "-o", "BatchMode=yes", name, "true"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def agents(folder: Path) -> list[int]:
    """Return the ids of nodewise's processes in a folder.

    On each host these are an agent, its guard and a worker.
    """
    found = (process.info for process in psutil.process_iter(["pid", "cwd", "cmdline"]))
    ours = (one for one in found if one["cwd"] == str(folder))
    return [one["pid"] for one in ours if one["cmdline"][1:3] == ["-m", "nodewise.measure.agent"]]
