"""Time a dry run of 1,000 cells (level: at most 10 s)."""

import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import yaml

RUNS = 3
STUDY = {
    "name": "thousand_cells",
    "title": "A thousand cells",
    "experiments": {
        "grid": {
            "title": "Grid",
            "study": "nodewise",
            "models": ["fashion_cnn", "fashion_mlp"],
            "strategies": {"multi_worker_mirrored": {"nodes": list(range(1, 11))}},
            "batches": [2**power for power in range(10)],
            "repeats": 5,
            "extent": {"steps": 10},
        }
    },
}


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "study.yaml")
        config.write_text(yaml.safe_dump(STUDY))
        seconds = []
        for _ in range(RUNS):
            started = time.perf_counter()
            told = subprocess.run(
                ["snakemake", "--cores", "all", "--dry-run", "--configfile", config],
                check=True,
                capture_output=True,
                text=True,
            )
            seconds.append(time.perf_counter() - started)
            if " 1000\n" not in told.stdout:
                raise SystemExit("the dry run did not list 1,000 cells")
    low, high = min(seconds), max(seconds)
    print(f"1,000 cells: median {statistics.median(seconds):.1f} s  ({low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
