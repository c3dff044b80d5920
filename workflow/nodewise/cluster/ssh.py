"""Run workers on hosts that are reached with the OpenSSH client. rsync copies the project there."""

import re
import shlex
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from nodewise.cluster.hosts import Hosts, versions
from nodewise.cluster.kinds.ssh import Host, Ssh
from nodewise.cluster.worker_state import ending
from nodewise.core.errors import RefusedError

# files that workers and the Makefile's targets need, besides the locks
_PROJECT = ["workflow", "models", "data/models", "data/datasets.yaml", "data/weights.yaml"]
_PROJECT += ["Makefile", "pyproject.toml", "README.md", "LICENSE"]
_OPTIONS = ["-T", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10"]
_OPTIONS += ["-o", "ServerAliveInterval=5", "-o", "ServerAliveCountMax=3"]
_SSH_FAILED = 255


class SshHosts(Hosts):
    """The first hosts of the settings, as many as are needed for `size` workers."""

    def __init__(self, size: int, settings: Ssh) -> None:
        super().__init__(size, settings)
        # commands on a host begin in the home folder
        self._settings, self._folder = settings, settings.folder.removeprefix("~/")
        there, python = shlex.quote(self._folder), f"python{versions()['Python']}"
        self.setup = f"cd {there} && rm -rf .venv && make setup PYTHON={python}"

    @contextmanager
    def open(self) -> Iterator[None]:
        if not all(self._host(rank).host for rank in range(self.size)):
            raise RefusedError("the settings name no hosts: records leave them out")
        self._hosts = [self._address(rank) for rank in range(self.size)]
        yield

    def _host(self, rank: int) -> Host:
        return self._settings.hosts[rank // self.per_host]

    def label(self, rank: int) -> str:
        return self._host(rank).label

    def names(self, rank: int) -> set[str]:
        host, found = self._host(rank), self._hosts[rank : rank + 1]
        return {host.host, host.host.rpartition("@")[2], host.address, *found} - {""}

    def prefixed(self, rank: int, words: Sequence[str]) -> list[str]:
        """Return the SSH command. The part that the remote shell reads contains no host name."""
        # the shell stays, so that exit code 255 is always that of SSH itself
        there = f"cd {shlex.quote(self._folder)} && {shlex.join(words)}; exit"
        return [*self._client(), "--", self._host(rank).host, there]

    def end_of(self, code: int, output: list[str]) -> str:
        failed = output[-1] if output and code == _SSH_FAILED else ending(code)
        return _changed_key(output) or failed

    def _client(self) -> list[str]:
        config = self._settings.config
        return ["ssh", *(["-F", str(config.expanduser())] if config else []), *_OPTIONS]

    def _address(self, rank: int) -> str:
        """Return the name or address by which the other hosts reach the host of `rank`.

        Raises:
            RefusedError: there is no OpenSSH client, or it cannot read its configuration.
        """
        host = self._host(rank)
        if host.address:
            return host.address
        command = [*self._client(), "-G", "--", host.host]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            reason = "there is no OpenSSH client here, or it cannot read its configuration"
            raise RefusedError(reason) from error
        lines = (line.partition(" ") for line in done.stdout.splitlines())
        return next(value for key, _, value in lines if key == "hostname")

    def prepare(self, rank: int, files: Sequence[Path]) -> None:
        """Copy the project's code and `files` to the host of `rank`, as long as it takes data."""
        locks = sorted(Path().glob("requirements*.lock"))
        sent = [name for name in (*_PROJECT, *map(str, [*locks, *files])) if Path(name).exists()]
        outside = [name for name in sent if Path(name).is_absolute() or ".." in Path(name).parts]
        if outside:
            raise RefusedError(f"{Path(outside[0]).name}: only files of the project are copied")
        # -s is --secluded-args, which rsync before 3.2.4 calls --protect-args
        command = ["rsync", "-aRzs", "--exclude=__pycache__", "--timeout=120"]
        there = f"{self._host(rank).host}:{self._folder}/"
        command += ["-e", shlex.join(self._client()), "--", *sent, there]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except FileNotFoundError:
            raise RefusedError("there is no rsync here") from None
        if done.returncode:
            output = [self.without_names(line) for line in done.stderr.splitlines() if line]
            # banners of hosts come first; if the connection failed, SSH says why at last
            own = [line for line in output if re.match("rsync: (?!connection unexpected)", line)]
            others = [line for line in output if not line.startswith(("rsync", "("))]
            reason = [*own, *others[-1:], ending(done.returncode)][0]
            raise RefusedError(f"{self.label(rank)}: {_changed_key(output) or reason}")


def _changed_key(output: list[str]) -> str:
    changed = any("HOST IDENTIFICATION HAS CHANGED" in line for line in output)
    return "its host key has changed" if changed else ""
