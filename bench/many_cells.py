"""Plan 20,000 cells, build tables (target: 30 s, 1 GB) and a site (5 min, 2 GB) of 10,000 records.

The records are simulated: one committed record whose step times are scaled by batch and nodes. Each
command is one process. Its time is wall time, its memory the largest resident set size.
"""

import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

import yaml

from nodewise.core.cell import Cell
from nodewise.core.files import write_text
from nodewise.results.record import Record, read_record, record_json
from nodewise.study.config import read_config

BASE = "data/records/*/*/*/fashion_cnn/custom_loop/*/nodes~2/repeat~0.json"
STRATEGIES = ("custom_loop", "mpi", "multi_worker_mirrored", "horovod")
NODES = [1, 2, 3, 4, 5, 6, 7, 8, 10, 12]
BATCHES = [16 * number for number in range(1, 26)]
REPEATS = 10
WORKERS = "1,64,512,4096"


def main() -> None:
    base = next(record for record in map(read_record, sorted(Path().glob(BASE))) if record.result)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "study.yaml"
        config.write_text(yaml.safe_dump(study(base, REPEATS)))
        results = folder / "results/many"
        twice = folder / "twice.yaml"
        twice.write_text(yaml.safe_dump(study(base, 2 * REPEATS)))
        report("plan", "nodewise", "plan", "--config", twice)
        started = time.perf_counter()
        cells = read_config(config).cells()
        for cell in cells:
            write_text(results / f"records/{cell.id}.json", record_json(simulated(base, cell)))
        print(
            f"{len(cells)} records simulated in {time.perf_counter() - started:.0f} s", flush=True
        )
        for shared in ("data", "models", "site", "mkdocs.yml", "CITATION.cff"):
            (folder / shared).symlink_to(Path(shared).absolute())
        os.chdir(folder)
        for step in ("build-tables", "build-fits", "build-site"):
            report(step, "nodewise", step, "--config", config)
        report("predict", "nodewise", "predict", results, "--nodes", WORKERS, "--json")


def study(base: Record, repeats: int) -> dict[str, object]:
    """Return a configuration with 1,000 cells for each repeat."""
    return {
        "name": "many",
        "title": "Many cells",
        "cluster": {"kind": "emulated"},
        "experiments": {
            "many": {
                "title": "Many cells",
                "study": "nodewise",
                "models": [base.cell.model],
                "strategies": {name: {"nodes": NODES} for name in STRATEGIES},
                "batches": BATCHES,
                "repeats": repeats,
                "extent": {"steps": base.cell.extent.steps or 40, "split_steps": 0},
            }
        },
    }


def simulated(base: Record, cell: Cell) -> Record:
    """Return a record of `cell`: the steps of the base, scaled by batch and by ring traffic."""
    assert base.result  # noqa: S101
    ring = 2 * (cell.nodes - 1) / cell.nodes
    times = (cell.batch / base.cell.batch + ring) * (1 + 0.02 * (cell.repeat % 5))
    worker = base.result.workers[0].model_dump() | {"split": None}
    steps = [round(one * times) for one in worker["step_us"]][: cell.extent.steps]
    worker |= {
        "step_us": steps,
        "input_us": worker["input_us"] * len(steps) // len(worker["step_us"]),
        "elapsed_s": sum(steps) / 1e6,
    }
    epoch = base.result.epochs[0].model_dump() | {"steps": len(steps), "seconds": sum(steps) / 1e6}
    result = base.result.model_dump() | {
        "workers": [worker | {"rank": rank} for rank in range(cell.workers)],
        "epochs": [epoch],
        "oversubscribed": False,
    }
    tree = base.model_dump(mode="json") | {"cell": cell.model_dump(mode="json"), "result": result}
    return Record.model_validate_json(json.dumps(tree))


def report(what: str, *command: str | Path) -> None:
    """Run a command; print its time and its memory."""
    started = time.perf_counter()
    with subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    seconds, cpu = time.perf_counter() - started, usage.ru_utime + usage.ru_stime
    ended = f", exit code {process.returncode}" if process.returncode else ""
    print(
        f"{what:14} {seconds:6.1f} s ({cpu:.1f} s of a core), "
        f"{usage.ru_maxrss * 1024 / 1e9:.2f} GB{ended}",
        flush=True,
    )


if __name__ == "__main__":
    main()
