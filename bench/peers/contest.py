"""Launch every way of training on the same nodes, and check that all do the same work."""

import json
import random
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from medians import Run, SameWork
from same_work import manifest_of

from nodewise.cluster.kinds.emulated import Emulated
from nodewise.cluster.kinds.local import Local
from nodewise.core.cell import Cell, Extent
from nodewise.results.record import read_record
from nodewise.strategies import STRATEGIES
from nodewise.study.config import read_config

HERE = Path(__file__).parent
DDP = "ddp"
SEED, TIME_LIMIT_S = 1, 300
SAME_LOSS = 1e-3


@dataclass(frozen=True)
class Contest:
    """The launches: which ways train which models, on which nodes and how often.

    Attributes:
        folder: the folder of temporary files.
        nodes_are: filled in by each launch with the network and CPU limit of its nodes.
    """

    models: list[str]
    ways: list[str]
    nodes: list[int]
    batch: int
    rounds: int
    extent: Extent
    cluster: Emulated
    torch_python: str | None
    folder: Path
    nodes_are: dict[str, str] = field(default_factory=dict)

    def checks(self, model: str) -> Iterator[SameWork]:
        """Yield each way's losses of ten steps, on the fewest nodes that exchange anything.

        Raises:
            SystemExit: a loss differs from that of the first way; then there is nothing to compare.
        """
        out = self.folder / model
        out.mkdir()
        nodes = min((n for n in self.nodes if n > 1), default=1)
        reference = None
        for way in sorted(self.ways, key=lambda way: way == DDP):  # DDP last: it needs weights
            if way == DDP:
                files = {name: str(out / f"{name}.npz") for name in ("weights", "examples")}
                losses = self._ddp(Local(), model, nodes, files)["losses"]
            else:
                job = [way, model, nodes, self.batch, out]
                losses = json.loads(call([sys.executable, HERE / "same_work.py", *job]))
            reference = reference or losses
            off = max(abs(a - b) / b for a, b in zip(losses, reference, strict=True))
            yield SameWork(model=model, way=way, nodes=nodes, losses=losses, off=off)
            if off > SAME_LOSS:
                raise SystemExit(f"{model}, {way}: its loss is off by {off:.1e}: not the same work")

    def launches(self) -> Iterator[Run]:
        """Yield every launch: round by round, with all ways of a place right after each other."""
        for number in range(self.rounds):
            places = [(model, nodes) for model in self.models for nodes in self.nodes]
            for model, nodes in random.sample(places, len(places)):
                for way in random.sample(self.ways, len(self.ways)):
                    if way == DDP:
                        found = self._ddp(self.cluster, model, nodes, {})
                    else:
                        found = self._ours(model, way, nodes)
                    self.nodes_are.update({name: found[name] for name in ("network", "cpu_limit")})
                    yield Run(
                        round=number,
                        model=model,
                        way=way,
                        nodes=nodes,
                        batch=self.batch,
                        **{name: found[name] for name in Run.model_fields if name in found},
                    )

    def _ddp(
        self, cluster: Emulated | Local, model: str, nodes: int, files: dict[str, str]
    ) -> dict[str, Any]:
        """Run a job of `ddp.py`; return its result."""
        job = files | {
            "python": self.torch_python,
            "model": model,
            "cluster": cluster.model_dump(),
            "nodes": nodes,
            "batch": self.batch,
            "seed": SEED,
            **self.extent.model_dump(include={"warmup_steps", "steps", "split_steps"}),
            "dataset": str(manifest_of(model).parent),
            "time_limit_s": TIME_LIMIT_S,
        }
        said = json.loads(call([sys.executable, HERE / "ddp.py"], json.dumps(job)))
        if "failure" in said:
            raise SystemExit(f"{model}, ddp, {nodes} nodes: {said['failure']}")
        result: dict[str, Any] = said["result"]
        return result

    def _ours(self, model: str, way: str, nodes: int) -> dict[str, Any]:
        """Run the command that a workflow rule runs for a cell; return the values of its record."""
        cell = self._cell(model, way, nodes)
        nodewise("measure-cell", cell.id, "--config", self._config)
        record = read_record(read_config(self._config).results / f"records/{cell.id}.json")
        if record.result is None:
            reason = record.failure and record.failure.reason
            raise SystemExit(f"{model}, {way}, {nodes} nodes: {reason}")
        result, split = record.result, record.result.workers[0].split
        in_ring = STRATEGIES[way].exchange_of(cell.options).sums_gradients
        all_reduces_us = split.communicate_us if split and in_ring else []
        return {
            "kind": record.kind,
            "network": record.provenance.network,
            "cpu_limit": record.provenance.cpu_limit,
            "step_s": result.elapsed_s / result.steps,
            "all_reduce_s": statistics.median(all_reduces_us) / 1e6 if all_reduces_us else None,
            "payload_bytes": result.payload_bytes,
            "sent_bytes": statistics.mean(one.bytes_sent for one in result.workers) / result.steps,
            "outside": result.conditions.outside,
        }

    @property
    def _config(self) -> Path:
        return self.folder / "study.yaml"

    def _cell(self, model: str, way: str, nodes: int) -> Cell:
        """Write a study with one cell; return the cell."""
        experiment = {
            "title": "Peers",
            "study": "nodewise",
            "models": [model],
            "strategies": {way: {"nodes": [nodes]}},
            "batches": [self.batch],
            "extent": self.extent.model_dump(exclude_none=True),
            "cluster": self.cluster.model_dump(mode="json", exclude_none=True),
        }
        study = {"name": "peers", "title": "Peers", "experiments": {"peers": experiment}}
        self._config.write_text(yaml.safe_dump(study | {"cell_time_limit_s": TIME_LIMIT_S}))
        (cell,) = read_config(self._config).cells()
        return cell


def nodewise(*words: object) -> None:
    """Run a command of this project."""
    call([sys.executable, "-m", "nodewise", *words])


def call(command: Sequence[object], told: str | None = None) -> str:
    """Run a command to its end with `told` on its standard input; return its output.

    Raises:
        SystemExit: the command failed; the text has the end of its error output.
    """
    done = subprocess.run(
        [str(word) for word in command], check=False, capture_output=True, text=True, input=told
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}:\n{done.stderr[-2000:]}")
    return done.stdout
