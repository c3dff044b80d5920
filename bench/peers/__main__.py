"""Our synchronous strategies against Horovod and PyTorch's DistributedDataParallel.

    python bench/peers --torch-python PATH [--models …] [--ways …] [--nodes …] [--out FILE]

Targets:

- On 2, 3 and 8 nodes, the exchange adds at most as much to a step as with Horovod and with
  DistributedDataParallel. What it adds is the difference between a step on n nodes and one on one.
- If computing and sending take about as long (`--batch 400`), a step on three nodes takes at most
  1.2 times the longer of the two.
- An all-reduce takes at most 1.08 times what its bytes take of the link.
- `custom_loop` on one node is never slower than Keras' `fit`.

All ways train the same models with the same optimizers on the same kind of nodes. In every round,
each way is launched once per model and number of nodes, in a random order. Before that, ten steps
from the same weights on the same examples must give the same loss in all ways. The results are one
JSON file (`medians.Results`) and a table of medians. The site shows those of `data/bench`.
"""

import argparse
import json
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from contest import DDP, HERE, Contest, call, nodewise
from findings import lines, run_line, work_line
from keras_fit import BATCH_AND_STEPS, USUAL
from medians import Fit, Results, Run, SameWork, medians
from same_work import manifest_of

from nodewise.cluster.kinds.emulated import Emulated, Link, Node
from nodewise.core.cell import Extent
from nodewise.core.files import check_writable, write_text
from nodewise.measure.provenance import provenance
from nodewise.models.registry import registry
from nodewise.results.record import Provenance
from nodewise.results.table_files import write_csv
from nodewise.strategies import STRATEGIES

MODELS = ["fashion_cnn", "mnist_cnn"]  # also in ddp_worker.py; DDP cannot train the others
OUR_WAYS = ["custom_loop", "mpi", "multi_worker_mirrored"]


def main() -> None:
    """Check, measure, and write the results."""
    asked = arguments()
    check_writable(asked.out)
    fitted = [*registry()] if asked.fit_rounds else []
    prepare({*asked.models, *fitted}, asked.ways)
    started = datetime.now(UTC)
    work: list[SameWork] = []
    runs: list[Run] = []
    with tempfile.TemporaryDirectory() as folder:
        contest = contest_of(asked, Path(folder))
        about = provenance_of(asked)
        for model in asked.models:
            for check in contest.checks(model) if len(asked.ways) > 1 else ():
                work.append(check)
                print(work_line(check), flush=True)
        fits = [fit(model, asked.fit_rounds) for model in fitted]
        for run in contest.launches():
            runs.append(run)
            print(run_line(run), flush=True)
            results = Results(  # written after each launch, so that a crash loses none
                started_at=started,
                finished_at=datetime.now(UTC),
                cluster=contest.cluster,
                batch=contest.batch,
                provenance=about.model_copy(update=contest.nodes_are),
                same_work=work,
                fits=fits,
                runs=runs,
            )
            write_text(asked.out, results.model_dump_json(indent=1) + "\n")
    write_csv(medians(results), asked.out.with_suffix(".csv"))
    print(*lines(results), sep="\n")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench/peers", description=__doc__.splitlines()[0])
    parser.add_argument("--torch-python", help="the interpreter that has torch")
    parser.add_argument("--models", nargs="+", choices=[*registry()], default=MODELS)
    parser.add_argument(
        "--ways", nargs="+", choices=[*STRATEGIES, DDP], default=[*OUR_WAYS, "horovod", DDP]
    )
    parser.add_argument("--nodes", nargs="+", type=int, default=[1, 2, 3, 8])
    parser.add_argument("--batch", type=int, default=64, help="examples per node and step")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=12, help="timed ones of a launch")
    parser.add_argument("--fit-rounds", type=int, default=10, help="with Keras; 0: none")
    parser.add_argument("--cpu", type=float, default=0.2, help="a node's share of a core")
    parser.add_argument("--rate", type=float, default=100, help="of a link, Mbit/s")
    parser.add_argument("--out", type=Path, default=Path("build/bench/peers.json"))
    asked = parser.parse_args()
    if DDP in asked.ways and not asked.torch_python:
        parser.error(f"--torch-python: must be given, or {DDP} be left out of --ways")
    if DDP in asked.ways and (others := {*asked.models} - {*MODELS}):
        parser.error(f"--models: {DDP} has no {', '.join(sorted(others))}; leave it out of --ways")
    return asked


def prepare(models: set[str], ways: list[str]) -> None:
    """Prepare the examples, and Horovod if it is needed."""
    for manifest in {manifest_of(model) for model in models}:
        nodewise("prepare", manifest.parent.name)
    if "horovod" in ways:
        nodewise("prepare", "horovod")


def contest_of(asked: argparse.Namespace, folder: Path) -> Contest:
    return Contest(
        models=asked.models,
        ways=asked.ways,
        nodes=asked.nodes,
        batch=asked.batch,
        rounds=asked.rounds,
        extent=Extent(warmup_steps=2, steps=asked.steps, split_steps=6),
        cluster=Emulated(node=Node(cpu=asked.cpu), link=Link(rate_mbit=asked.rate)),
        torch_python=asked.torch_python,
        folder=folder,
    )


def fit(model: str, rounds: int) -> Fit:
    rates = json.loads(call([sys.executable, HERE / "keras_fit.py", model, rounds]))
    batch, _ = BATCH_AND_STEPS.get(model, USUAL)
    return Fit(model=model, batch=batch, rates=rates)


def provenance_of(asked: argparse.Namespace) -> Provenance:
    """Return the provenance. PyTorch's version comes from its own interpreter."""
    found = provenance(
        config=None,
        packages=[
            package for way in asked.ways if way != DDP for package in STRATEGIES[way].packages
        ],
        command="python bench/peers",
    )
    if DDP not in asked.ways:
        return found
    torch = call([asked.torch_python, "-c", "import torch; print(torch.__version__)"]).strip()
    return found.model_copy(update={"versions": found.versions | {"torch": torch}})


if __name__ == "__main__":
    main()
