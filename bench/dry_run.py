"""Time `nodewise --help` (target: at most 1 s) and a dry run of the default study (15 s)."""

import statistics
import subprocess
import time

RUNS = 5
COMMANDS = {
    "nodewise --help": ["nodewise", "--help"],
    "dry run of the default study": ["snakemake", "--cores", "all", "--dry-run"],
}


def main() -> None:
    for name, command in COMMANDS.items():
        seconds = []
        for _ in range(RUNS):
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(time.perf_counter() - started)
        low, high = min(seconds), max(seconds)
        print(f"{name:30} median {statistics.median(seconds):.2f} s  ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
