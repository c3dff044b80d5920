"""Record what is needed to trust or repeat a measurement: code, study, versions, machine."""

import itertools
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from nodewise.cluster import cgroup
from nodewise.core.files import file_sha256, project_path
from nodewise.results.record import DataSource, Provenance
from nodewise.strategies import STRATEGIES

if TYPE_CHECKING:  # importing NumPy starts threads, so the environment must be set before
    from nodewise.data.manifest import Manifest

_LOCK = Path("requirements.lock")
_PACKAGES = ("tensorflow", "keras", "numpy", "nodewise")


def provenance(*, config: Path | None, command: str, packages: Sequence[str] = ()) -> Provenance:
    """Describe the code, configuration, versions and machine of this process.

    The result names no person, host or folder. Call this before anything is measured, because the
    code or the configuration could change meanwhile. `network` and `cpu_limit` are "none" until
    there are nodes.

    Args:
        config: the study, if there is one.
        command: the command that repeats the measurement.
        packages: the strategy's own packages, if any.
    """
    changes = _git("status", "--porcelain", "--untracked-files=no")
    return Provenance(
        commit=_git("rev-parse", "HEAD"),
        dirty=None if changes is None else bool(changes),
        config_sha256=file_sha256(config) if config and config.is_file() else None,
        lock_sha256=file_sha256(_LOCK) if _LOCK.is_file() else None,
        versions={"python": platform.python_version()} | _versions(*_PACKAGES, *packages),
        cpu=processor(Path("/proc/cpuinfo").read_text(encoding="utf-8")),
        cores=cgroup.whole_cores(),
        memory_bytes=psutil.virtual_memory().total,
        kernel=f"{platform.system()} {platform.release()}",
        network="none",
        cpu_limit="none",
        command=command,
    )


def command(*words: str | Path) -> str:
    """Return the shell command that repeats a measurement; paths are as in `project_path`."""
    return shlex.join(project_path(word) if isinstance(word, Path) else word for word in words)


def data_source(manifest: "Manifest") -> DataSource:
    """Return a record's description of the dataset that was trained on."""
    return DataSource(**{name: getattr(manifest, name) for name in DataSource.model_fields})


def _versions(*packages: str) -> dict[str, str]:
    """Return the versions of the installed ones of `packages`.

    One may be missing; the cell may be refused for that reason.
    """
    libraries = [one.library for one in STRATEGIES.values() if one.library]
    places = [*sys.path, *(str(library.folder / "site") for library in libraries)]
    return {
        package: found.version
        for package in packages
        for found in itertools.islice(distributions(name=package, path=places), 1)
    }


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", *arguments], capture_output=True, text=True, timeout=10, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None  # not a checkout, or no git: null in the record
    return done.stdout.strip()


def processor(cpuinfo: str) -> str:
    """Return the name of the first processor in `cpuinfo`, the text of /proc/cpuinfo.

    The name includes family and model, if known: clouds give processors of several generations the
    same name.
    """
    first = cpuinfo.split("\n\n", 1)[0].splitlines()
    says = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first)}
    name = says.get("model name", platform.machine())
    if {"cpu family", "model"} <= says.keys():
        name += f" (family {says['cpu family']}, model {says['model']})"
    return name
