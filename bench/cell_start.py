"""From the start of a cell's rule to its first timed step, 2 workers (level: at most 6 s).

Runs the command that the rule runs, several times, and prints the milestones of its records.
"""

import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from nodewise.records import read_record

RUNS = 5
DATASET = Path("results/datasets/fashion_mnist")
CELL = "smoke_steps/fashion_cnn/multi_worker_mirrored/batch~32/nodes~2/repeat~0"


def main() -> None:
    nodewise = [sys.executable, "-m", "nodewise"]
    subprocess.run([*nodewise, "prepare-dataset", "fashion_mnist", "--out", DATASET], check=True)
    starts = []
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "record.json")
        for _ in range(RUNS):
            command = [*nodewise, "measure-cell", CELL, "--config", "config/smoke.yaml"]
            command += ["--manifest", DATASET / "manifest.json", "--out", out, "--logs", folder]
            subprocess.run(command, check=True, capture_output=True)
            starts.append(read_record(out).result.start_up)
    for milestone in ("imported_s", "workers_ready_s", "first_timed_step_s"):
        seconds = [getattr(start, milestone) for start in starts]
        low, high = min(seconds), max(seconds)
        print(
            f"{milestone:20} median {statistics.median(seconds):.2f} s  ({low:.2f} to {high:.2f})"
        )


if __name__ == "__main__":
    main()
