"""Renew the digests of the code that measures: python tests/make_measures.py."""

import hashlib
from pathlib import Path

PACKAGE = Path("workflow/nodewise")
MEASURING = [
    *("cells.py", "runner.py", "train.py", "batches.py", "data_service.py", "places.py"),
    *("recipes.py", "own.py", "gates.py", "noise_scale.py"),
    *("datasets/facts.py", "datasets/preparation.py", "datasets/prepared.py"),
    *("datasets/sharding.py", "datasets/formats/*.py", "datasets/standins/*.py"),
    *("clusters/*.py", "measure/**/*.py", "strategies/*.py"),
]
NOT_MEASURING = {"clusters/permits.py", "measure/describe.py"}  # for `nodewise doctor`, for pages
DIGESTS = Path("tests/measures.sha256")


def digests() -> str:
    """Return a line for each file of the measuring code, as sha256sum prints them."""
    found = {path for pattern in MEASURING for path in PACKAGE.glob(pattern)}
    files = sorted(found - {PACKAGE / name for name in NOT_MEASURING})
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file}\n" for file in files)


if __name__ == "__main__":
    DIGESTS.write_text(digests())
