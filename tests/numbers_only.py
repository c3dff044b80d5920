"""The commands that answer from numbers, for tests of the light installation.

Run as a program, it runs them in the current folder where nothing of the extras can be imported,
nor what only Unix has.
"""

import os
import signal
import sys

COMMANDS = [
    line.split()
    for line in """
fit measurements.csv -o fit.json
predict fit.json --nodes 1-8
optimum fit.json --global-batch 1024 --converges-like resnet
next fit.json
forecast --step-time 0.18 --batch 64 --parameters 25.6e6 --between 100gbit-rdma --strategy horovod
explain --one 400images/s --many 900images/s --devices 8 --batch 64 --parameters 25.6e6
import run.log --pattern time.(?P<step_ms>\\d+)ms --devices 1 --batch 12 -o mine.csv
strategies
""".strip().splitlines()
]
OF_EXTRAS = {"altair", "jinja2", "keras", "markupsafe", "mkdocs", "mpi4py", "PIL", "pooch"}
OF_EXTRAS |= {"psutil", "pyarrow", "pyroute2", "requests", "snakemake", "tensorflow", "vl_convert"}
OF_UNIX = {"fcntl", "grp", "pwd", "resource", "termios"}


def main() -> None:
    import pandas  # noqa: F401 (they look at the system that they are on)

    import nodewise.cli

    for name in ("fork", "getuid", "killpg", "sched_getaffinity", "uname"):
        delattr(os, name)
    del signal.SIGHUP, signal.SIGKILL
    for name in OF_EXTRAS | OF_UNIX:
        sys.modules[name] = None  # importing it fails
    for command in COMMANDS:
        nodewise.cli.app(command, standalone_mode=False)


if __name__ == "__main__":
    main()
