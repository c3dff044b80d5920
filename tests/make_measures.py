"""Update the digests of the code that measures: python tests/make_measures.py."""

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
    # for `nodewise doctor`
    *("cluster/doctor.py", "cluster/host_checks.py", "cluster/machine_checks.py"),
    "measure/step_memory.py",  # for `nodewise describe-model`
    "strategies/*/law.py",  # for the page of the strategy
]
DIGESTS = Path("tests/measures.sha256")


def digests() -> str:
    """Return the digests of the files of the measuring code, in the format of sha256sum."""
    found, left_out = (
        {path for pattern in patterns for path in PACKAGE.glob(pattern)}
        for patterns in (MEASURING, NOT_MEASURING)
    )
    files = sorted(found - left_out)
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}\n" for file in files)


if __name__ == "__main__":
    DIGESTS.write_text(digests())
