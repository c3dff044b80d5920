"""Estimate how long cells take on this machine, without TensorFlow.

    step = floating-point operations / speed + exchange + overhead
    cell = start + steps × step + evaluation

The speed follows from the time of the reference step on this machine. Computing takes `1 / share`
times as long on an emulated node, and longer still if the nodes ask for more cores than there are.
"""

import math
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nodewise.core.cell import Cell
from nodewise.data.registry import find
from nodewise.models.facts import facts, own_description, read_own
from nodewise.results.model_description import Architecture
from nodewise.strategies import STRATEGIES
from nodewise.strategies.bytes_sent import Trained, ring
from nodewise.study.config import DATASETS

if TYPE_CHECKING:
    from nodewise.data.facts import Facts
    from nodewise.data.manifest import Manifest

# Times are those of a processor whose reference step takes 5.5 ms, and are scaled by the reference
# step of this one. The speed grows with the operations of an example, because larger products use
# a core better: Fashion CNN reaches 50e9 operations a second, BERT-base 300e9. The speed and the
# time of a layer are fitted to the committed records of all models.
REFERENCE_S = 0.0055
FLOPS = 120e9  # per second and core, for a model that takes 1e9 operations to train an example
FLOPS_EXPONENT = 0.2  # twice the speed for 32 times as many operations
BYTES = 300e6  # that a core sends through the network's software in a second; as many come in
STEP_S = 0.001  # of each step, whatever the model
SPLIT_S = 0.25  # first of the steps whose parts are timed apart: traces them
START_S, START_PER_NODE_S = 1.3, 0.4  # the command, TensorFlow's import, the first step's tracing
LAYER_S = 0.03  # of each layer in each process, to build and trace it
END_S = 0.5  # evaluation's tracing, the record, Snakemake's next job

PREPARED = Path("results/datasets")


class Machine(NamedTuple):
    """What a plan takes from a machine: seconds of the reference step, cores, bytes of memory."""

    reference_s: float
    cores: int
    memory_bytes: int = sys.maxsize

    @classmethod
    def here(cls) -> "Machine":
        """Measure this machine."""
        from nodewise.cluster import cgroup, memory
        from nodewise.cluster.reference_step import reference_us

        return cls(reference_us() / 1e6, cgroup.whole_cores(), memory.machine_bytes())

    @property
    def slowness(self) -> float:
        """How many times longer than on the processor of the constants everything takes."""
        return self.reference_s / REFERENCE_S


class Work(NamedTuple):
    """What a cell's model and dataset ask for; operations are those of one example."""

    forward_flops: float
    training_flops: float
    payload_bytes: int
    layers: int
    train_examples: int
    test_examples: int

    @property
    def speed(self) -> float:
        """Floating-point operations per second and core; a model may have none to count."""
        return FLOPS * math.pow(max(self.training_flops, 1.0) / 1e9, FLOPS_EXPONENT)

    @classmethod
    def of(cls, model: Architecture, data: "Facts | Manifest") -> "Work":
        """Return what a model and a dataset ask for."""
        return cls(
            model.flops_per_example,
            model.training_flops_per_example,
            model.payload_bytes,
            len(model.layers),
            data.train_examples,
            data.test_examples,
        )


class Estimate(NamedTuple):
    """Estimated seconds on the clock on the wall: of a step, of all work, of start and end."""

    step_s: float
    work_s: float
    fixed_s: float

    @property
    def cell_s(self) -> float:
        """Seconds of the whole cell."""
        return self.work_s + self.fixed_s

    def corrected(self, factor: float) -> "Estimate":
        """Return the estimate for work that takes `factor` times as long."""
        return Estimate(factor * self.step_s, factor * self.work_s, self.fixed_s)


def estimate(cell: Cell, work: Work, machine: Machine) -> Estimate:
    """Return how long `cell` takes on `machine`.

    Whole steps in an epoch, and blocks measured again because the machine was not at rest, are as
    in a run without any such block.
    """
    crowd = max(1.0, cell.cores / machine.cores)
    busy = cell.nodes + cell.processes - cell.workers
    free = machine.slowness * max(1.0, busy / machine.cores)  # not held to its share
    held = machine.slowness * crowd / cell.cluster.share
    sent = exchange(cell, work)
    processor_s = work.training_flops * cell.batch / work.speed + sent.bytes_sent / BYTES + STEP_S
    step_s = held * processor_s
    step_s += sent.turns * sent.bytes_sent * 8 / cell.cluster.link_bit_s
    step_s += sent.messages * cell.cluster.latency_s
    extent = cell.extent
    per_epoch = work.train_examples // cell.global_batch
    timed = extent.steps or (extent.epochs or 0) * per_epoch
    at_once = min(cell.nodes, machine.cores)
    first_s = free * processor_s
    tested = work.test_examples if extent.epochs else 0
    test_s = machine.slowness * tested * work.forward_flops / work.speed / at_once
    block_s = (extent.untimed_steps + timed) * step_s + held * SPLIT_S * (extent.split_steps > 0)
    process_s = START_PER_NODE_S + LAYER_S * work.layers
    fixed_s = machine.slowness * (START_S + process_s * cell.processes + END_S)
    return Estimate(step_s, first_s + block_s + test_s, fixed_s)


class Exchange(NamedTuple):
    """What the busiest node sends in a step; as much comes to it.

    `turns` is how often its link is busy for that long: once where as much comes in meanwhile,
    twice where that has to come first.
    """

    bytes_sent: float = 0.0
    messages: float = 0.0
    turns: int = 1


def exchange(cell: Cell, work: Work) -> Exchange:
    """Return what the busiest node of `cell` exchanges in a step, by what its strategy declares.

    If the declared formula needs what registries do not tell, such as the activations where a
    model is cut, it is a ring's share.
    """
    strategy = STRATEGIES[cell.strategy]
    per_epoch = work.train_examples // cell.global_batch
    trained = Trained(cell, work.payload_bytes, per_epoch)
    sent = strategy.bytes_sent(trained)
    if sent is None:
        sent = ring(trained)
    if sent == 0:
        return Exchange()
    messages = 2 * (cell.nodes - 1)
    match strategy.exchange_of(cell.options):
        case "server":  # answers all workers
            return Exchange(cell.nodes * sent / cell.servers, 2, turns=2)
        case "star":  # its driver sends half of all
            return Exchange(cell.nodes * sent / 2, messages, turns=2)
        case "averaging":  # once in a period; also of optimizer states, whose size is not known
            period = cell.options["period"]
            steps = max(1, period if isinstance(period, int) else per_epoch)
            return Exchange(ring(trained) / steps, messages / steps)
        case _:
            return Exchange(sent, messages)


def estimates(cells: Iterable[Cell], machine: Machine) -> list[Estimate | None]:
    """Estimate each cell; None for a user's own model whose work is not known yet.

    Raises:
        UserError: a dataset or a model is not known.
    """
    registered, own = cache(work_of), cache(_own_work)  # files are read once for each model
    found = []
    for cell in cells:
        if cell.build:
            work = own(own_description(cell), cell.load, cell.dataset)
        else:
            work = registered(cell.model, cell.dataset)
        found.append(estimate(cell, work, machine) if work else None)
    return found


def work_of(model: str, dataset: str) -> Work:
    """Return what is known of a model and a dataset of this project.

    Raises:
        UserError: the model is not described, or the dataset is not known.
    """
    known, data = facts(model), find(DATASETS, dataset)
    return Work.of(known, data)


def _own_work(description: Path, load: str | None, dataset: str) -> Work | None:
    """Return what is known of a user's own model; None before it is described, its data prepared.

    Raises:
        UserError: a file is damaged, or the dataset is not known.
    """
    manifest = PREPARED / dataset / "manifest.json"
    if load and not manifest.is_file():
        return None
    from nodewise.data.manifest import read_manifest

    known = read_own(description)
    data = read_manifest(manifest) if load else find(DATASETS, dataset)
    return Work.of(known, data) if known else None
