"""Time the start of every reporting-world command, TensorFlow kept out (level: under 2 s each)."""

import statistics
import subprocess
import sys
import time

RUNS = 5
IMPORTS = {
    "nodewise --help": [sys.executable, "-m", "nodewise", "--help"],
    "check-config": [sys.executable, "-m", "nodewise", "check-config", "config/study.yaml"],
    **{
        f"import nodewise.{module}": [
            sys.executable,
            "-c",
            f"import sys, nodewise.{module}; sys.exit('tensorflow' in sys.modules)",
        ]
        for module in ("tables", "overhead.study", "charts", "pages")
    },
}


def main() -> None:
    for name, command in IMPORTS.items():
        seconds = []
        for _ in range(RUNS):
            started = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            seconds.append(time.perf_counter() - started)
        low, high = min(seconds), max(seconds)
        print(f"{name:28} median {statistics.median(seconds):.2f} s  ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
