"""Hosts for tests: real SSH daemons in network namespaces of their own, on one bridge."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
from pyroute2 import IPRoute, NetNS, netns

NET = "10.211.7"
_PORT = 2022


def key(path: Path) -> Path:
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path)], check=True)
    return path


@contextmanager
def network(hosts: int, prefix: str, net: str = NET) -> Iterator[list[str]]:
    """Lay a network; yield a namespace for each host, reachable from here as `net`.2, .3, …"""
    names = [f"{prefix}{number}" for number in range(1, hosts + 1)]
    bridge = f"{prefix}br"
    with IPRoute() as here:
        try:
            here.link("add", ifname=bridge, kind="bridge")
            at = here.link_lookup(ifname=bridge)[0]
            here.addr("add", index=at, address=f"{net}.1", prefixlen=24)
            here.link("set", index=at, state="up")
            for number, name in enumerate(names, 2):
                netns.create(name)
                here.link(
                    "add",
                    ifname=f"{name}a",
                    kind="veth",
                    peer={"ifname": "eth0", "net_ns_fd": name},
                )
                ours = here.link_lookup(ifname=f"{name}a")[0]
                here.link("set", index=ours, master=at, state="up")
                with NetNS(name) as there:
                    for interface in ("lo", "eth0"):
                        index = there.link_lookup(ifname=interface)[0]
                        if interface == "eth0":
                            there.addr("add", index=index, address=f"{net}.{number}", prefixlen=24)
                        there.link("set", index=index, state="up")
            yield names
        finally:
            for name in names:
                for index in here.link_lookup(ifname=f"{name}a"):
                    here.link("del", index=index)
                if name in netns.listnetns():
                    netns.remove(name)
            for index in here.link_lookup(ifname=bridge):
                here.link("del", index=index)


@contextmanager
def cut(namespace: str) -> Iterator[None]:
    """Cut a host off from the network during the block."""
    with IPRoute() as here:
        index = here.link_lookup(ifname=f"{namespace}a")[0]
        here.link("set", index=index, state="down")
        try:
            yield
        finally:
            here.link("set", index=index, state="up")


@contextmanager
def daemons(folder: Path, namespaces: list[str]) -> Iterator[Path]:
    """Start a daemon in each namespace; yield a client's configuration: hosts one, two, three."""
    user = key(folder / "user")
    (folder / "authorized").write_text(user.with_suffix(".pub").read_text())
    host = key(folder / "host")
    known = [f"[{NET}.{n}]:{_PORT} {host.with_suffix('.pub').read_text()}" for n in range(2, 9)]
    (folder / "known").write_text("".join(known))
    (folder / "sshd").write_text(
        f"Port {_PORT}\nHostKey {host}\nUsePAM no\nPidFile none\nStrictModes no\n"
        f"AuthorizedKeysFile {folder / 'authorized'}\nPermitRootLogin yes\n"
    )
    names = ["one", "two", "three"][: len(namespaces)]
    aliases = [f"Host {name}\n HostName {NET}.{n}\n" for n, name in enumerate(names, 2)]
    (folder / "client").write_text(
        "".join(aliases) + f"Host *\n Port {_PORT}\n User root\n IdentityFile {user}\n"
        f" IdentitiesOnly yes\n UserKnownHostsFile {folder / 'known'}\n"
    )
    # a /run of its own: sshd wants a folder there
    serve = 'mount -t tmpfs tmpfs /run && mkdir /run/sshd && exec /usr/sbin/sshd -D -e -f "$0"'
    started = []
    try:
        for name in namespaces:
            netns_file = f"/var/run/netns/{name}"
            command = ["nsenter", f"--net={netns_file}", "unshare", "-m", "sh", "-c", serve]
            with (folder / f"{name}.log").open("wb") as log:
                started.append(
                    subprocess.Popen([*command, str(folder / "sshd")], stdout=log, stderr=log)
                )
        for name in names:
            _wait_for(folder / "client", name)
        yield folder / "client"
    finally:
        for daemon in started:
            daemon.kill()
            daemon.wait()


def _wait_for(config: Path, name: str) -> None:
    for _ in range(100):
        done = subprocess.run(
            ["ssh", "-F", str(config), "-o", "BatchMode=yes", name, "true"],
            capture_output=True,
            check=False,
        )
        if done.returncode == 0:
            return
        time.sleep(0.05)
    raise TimeoutError(done.stderr.decode())


def running(word: str) -> list[str]:
    """Return the command lines of this machine that contain `word`."""
    lines = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            lines.append(" ".join(process.cmdline()))
    return [line for line in lines if word in line]
