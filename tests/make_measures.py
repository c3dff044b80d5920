"""Renew the digests of the measuring code: python tests/make_measures.py."""

import hashlib
from pathlib import Path

PACKAGE = Path("workflow/nodewise")
MEASURING = [
    *("core/cell.py", "models/training.py", "models/user_model.py", "models/registry.py"),
    *("models/contents.py", "models/fit_options.py"),
    *("models/cut.py", "models/layers.py", "models/flops.py", "models/graph_flops.py"),
    *("data/**/*.py", "cluster/**/*.py", "strategies/**/*.py", "measure/**/*.py"),
    "results/quiet_thresholds.py",
]
NOT_MEASURING = [
    # used by `nodewise doctor` only
    *("cluster/doctor.py", "cluster/host_checks.py", "cluster/machine_checks.py"),
    "measure/step_memory.py",  # used by `nodewise describe-model` only
    "strategies/*/law.py",  # used by the page of the strategy only
]
DIGESTS = Path("tests/measures.sha256")


def digests() -> str:
    """Return a line for each file of the measuring code, as sha256sum prints it."""
    found, left_out = (
        {path for pattern in patterns for path in PACKAGE.glob(pattern)}
        for patterns in (MEASURING, NOT_MEASURING)
    )
    files = sorted(found - left_out)
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}\n" for file in files)


if __name__ == "__main__":
    DIGESTS.write_text(digests())
