"""Renew the digests of the code that measures: python tests/make_measures.py."""

import hashlib
from pathlib import Path

PACKAGE = Path("workflow/nodewise")
MEASURING = [
    *("core/cell.py", "models/training.py", "models/user_model.py", "models/registry.py"),
    "models/fit_options.py",
    *("models/cut.py", "models/layers.py", "models/flops.py"),
    *("data/**/*.py", "cluster/**/*.py", "strategies/**/*.py", "measure/**/*.py"),
    "results/quiet_thresholds.py",
]
# for `nodewise doctor`
NOT_MEASURING = {"cluster/doctor.py", "cluster/host_checks.py", "cluster/machine_checks.py"}
DIGESTS = Path("tests/measures.sha256")


def digests() -> str:
    """Return a line for each file of the measuring code, as sha256sum prints them."""
    found = {path for pattern in MEASURING for path in PACKAGE.glob(pattern)}
    files = sorted(found - {PACKAGE / name for name in NOT_MEASURING})
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}\n" for file in files)


if __name__ == "__main__":
    DIGESTS.write_text(digests())
