"""Time `make study` (target: at most 20 minutes) and `make site` (3 minutes) from scratch."""

import shutil
import subprocess
import time
from pathlib import Path

MADE = ("results", "build")


def main() -> None:
    subprocess.run(["make", "setup"], check=True)
    for target in ("study", "site"):
        for folder in MADE:
            shutil.rmtree(Path(folder), ignore_errors=True)
        started = time.perf_counter()
        subprocess.run(["make", target], check=True)
        print(f"make {target}: {(time.perf_counter() - started) / 60:.1f} min")


if __name__ == "__main__":
    main()
