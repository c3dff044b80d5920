"""Time the smoke study from scratch (level: 4 minutes) and its site build (level: 10 s)."""

import shutil
import subprocess
import time
from pathlib import Path

BUILD_RUNS = 3
BUILT = (Path("build/docs"), Path("build/cells"), Path("build/site"))


def main() -> None:
    for folder in (Path("results/smoke"), *BUILT):
        shutil.rmtree(folder, ignore_errors=True)
    snakemake = ["snakemake", "--cores", "all", "--configfile", "config/smoke.yaml"]
    print(f"smoke study from scratch: {timed(snakemake):.0f} s")
    for run in range(1, BUILD_RUNS + 1):
        for folder in BUILT:
            shutil.rmtree(folder)
        print(f"pages and site, run {run}: {timed(snakemake):.1f} s")


def timed(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - started


if __name__ == "__main__":
    main()
