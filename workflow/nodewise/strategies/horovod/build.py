"""Build Horovod 0.28.1, its last release, for the installed TensorFlow.

There is no wheel of this release, and its source needs changes; the changed version is called
0.28.1+nodewise. pip downloads, checks and compiles it into a separate folder, which Horovod's cells
add to their path. The project's environment is not changed. Horovod is under the Apache License
2.0, like this project.
"""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from functools import partial
from importlib.metadata import version
from pathlib import Path

from filelock import FileLock

from nodewise.core.errors import UserError
from nodewise.core.files import check_writable, file_sha256, write_json

VERSION = "0.28.1"
SHA256 = "92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0"
FOLDER = Path("results/horovod")
_LIMIT_S = 7200  # of each step of the build
_LABEL = "nodewise"  # suffix of the version, so that records tell this from the original release
_CHANGES = Path(__file__).with_name("changes.patch")
_TOOLS = ("setuptools==80.9.0", "wheel==0.48.0", "cmake==3.31.10", "packaging==25.0")
_NEEDED = ("cloudpickle==3.1.2",)  # imported by Horovod, but missing in the environment
_PLAIN = ("--no-deps", "--no-build-isolation")
_SETTINGS = {
    "HOROVOD_LOCAL_VERSION": _LABEL,
    "HOROVOD_WITH_TENSORFLOW": "1",
    "HOROVOD_WITHOUT_PYTORCH": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_CPU_OPERATIONS": "GLOO",
    "MAKEFLAGS": "-j2",
    "LDFLAGS": "-s",
}


def build(out: Path) -> str | None:
    """Build Horovod into `out/site`, unless it is already there.

    `out/manifest.json` is written last. It says what Horovod was built from and for, or why it
    could not be built. In the latter case Horovod's cells are refused and all others are measured.

    Returns:
        None, or one line that says why there is no Horovod; details are in `out/build.log`.

    Raises:
        OSError: `out` cannot be written.
    """
    manifest = out / "manifest.json"
    if missing(out) is None:
        return None
    check_writable(manifest)
    with FileLock(out / ".lock"):  # wait if another run is building it
        if missing(out) is None:
            return None
        manifest.unlink(missing_ok=True)  # without a manifest, Horovod counts as not built
        try:
            _build(out)
        except UserError as error:
            write_json(manifest, {"missing": str(error)})
            return str(error)
        write_json(manifest, wanted())
    return None


def missing(out: Path = FOLDER) -> str | None:
    """Return None if `out/site` has Horovod for the installed packages, else one line why not."""
    try:
        manifest = json.loads((out / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return "Horovod is not built"
    if manifest == wanted() and (out / "site" / "horovod").is_dir():
        return None
    reason = manifest.get("missing") if isinstance(manifest, dict) else None
    return str(reason or "Horovod was built for another TensorFlow or Python")


def _build(out: Path) -> None:
    """Run all steps of the build in a folder of its own, then move the result to `out/site`."""
    for program in ("g++", "make", "patch"):
        if shutil.which(program) is None:
            raise UserError(f"building Horovod needs {program}, which is not on the PATH")
    folder, log = out.resolve() / ".build", out / "build.log"
    shutil.rmtree(folder, ignore_errors=True)  # left behind if a build was killed
    folder.mkdir()
    log.write_bytes(b"")
    tools, site, requirement = folder / "tools", folder / "site", folder / "horovod.txt"
    requirement.write_text(f"horovod=={VERSION} --hash=sha256:{SHA256}\n", encoding="utf-8")
    environment = os.environ | {"TMPDIR": str(folder)}
    try:
        run = partial(_pip, log, environment)
        run("fetching the build tools", "install", "--target", tools, *_TOOLS, *_NEEDED)
        environment |= {
            "PYTHONPATH": str(tools),
            "PATH": f"{tools / 'cmake' / 'data' / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        checked = ["--no-binary", "horovod", "--require-hashes", "--requirement", str(requirement)]
        run("fetching the source", "download", *_PLAIN, *checked, "--dest", folder)
        packed = folder / f"horovod-{VERSION}.tar.gz"
        subprocess.run(["tar", "--extract", "--file", packed, "--directory", folder], check=True)
        source = folder / f"horovod-{VERSION}"
        patch = ["patch", "--strip=1", "--quiet", f"--directory={source}", f"--input={_CHANGES}"]
        subprocess.run(patch, check=True)
        environment |= _SETTINGS  # not earlier: pip checks the version of what it fetched
        # no cache: pip would reuse the wheel of a different source from the same folder
        run("compiling", "wheel", *_PLAIN, "--no-cache-dir", "--wheel-dir", folder, source)
        (wheel,) = folder.glob("horovod-*.whl")
        run("installing the wheel", "install", "--no-deps", "--target", site, wheel, *_NEEDED)
        shutil.rmtree(out / "site", ignore_errors=True)
        site.rename(out / "site")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def wanted() -> dict[str, object]:
    """Return what Horovod is built from and for. If any of it changes, it must be built again."""
    return {
        "horovod": f"{VERSION}+{_LABEL}",
        "sha256": SHA256,
        "changes": file_sha256(_CHANGES),
        "tensorflow": version("tensorflow"),  # the wheel fits this one only
        "python": sysconfig.get_python_version(),
    }


def _pip(log: Path, environment: dict[str, str], what: str, *arguments: str | Path) -> None:
    """Run pip; its output goes to `log`.

    Raises:
        UserError: pip failed; the text says in which step.
    """
    from nodewise.cluster.guard import guarded  # a declaration must not import psutil

    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    with log.open("ab") as output, guarded(_LIMIT_S) as guard:  # it ends the compilers, too
        running = subprocess.Popen(
            command, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        guard(running.pid)
        code = running.wait()
    if code:
        raise UserError(f"Horovod: {what} failed; see {log}")
