"""Estimate how long cells take on this machine, without TensorFlow.

    step = floating-point operations / speed + exchange + overhead
    cell = start + steps × step + evaluation

The speed follows from the time of the reference step on this machine. On an emulated node computing
takes `1 / share` times as long. It takes still longer if the nodes need more cores than there are.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from nodewise.core.cell import Cell
from nodewise.core.exchanges import Step
from nodewise.data.registry import Entry, find
from nodewise.models.facts import description_of
from nodewise.results.model_description import Architecture
from nodewise.strategies import STRATEGIES
from nodewise.study.config import DATASETS, PREPARED

if TYPE_CHECKING:
    from nodewise.data.manifest import Manifest

# These times are those of a processor whose reference step takes 5.5 ms. They are scaled by this
# machine's reference step. Models with more operations per example are computed faster, because
# larger matrix products use a core better: Fashion CNN reaches 50e9 operations a second, BERT-base
# 300e9. The speed and the time per layer were fitted to the committed records of all models.
REFERENCE_S = 0.0055
FLOPS = 120e9  # per second and core, for a model that takes 1e9 operations to train an example
FLOPS_EXPONENT = 0.2  # 32 times as many operations give twice the speed
BYTES = 300e6  # per second that one core can send through the network stack while receiving as many
STEP_S = 0.0005  # overhead of each step, for all models
SPLIT_S = 0.25  # tracing in the first split step (whose parts are timed separately)
START_S, START_PER_NODE_S = 1.3, 0.4  # the command, TensorFlow's import, the first step's tracing
LAYER_S = 0.03  # building and tracing, per layer and process
END_S = 0.5  # tracing of the evaluation, the record, Snakemake's next job

DatasetInfo: TypeAlias = "Entry | Manifest"
"""The registry's entry of a dataset, or the manifest of a user's own data."""


class Machine(NamedTuple):
    """Facts about a machine for a plan: reference step in seconds, and cores."""

    reference_s: float
    cores: int

    @property
    def slowness(self) -> float:
        """Factor by which everything takes longer than on the processor of the constants above."""
        return self.reference_s / REFERENCE_S


class Estimate(NamedTuple):
    """Estimated wall-clock seconds: of a step, and of the whole cell."""

    step_s: float
    cell_s: float


def estimate(cell: Cell, model: Architecture, data: DatasetInfo, machine: Machine) -> Estimate:
    """Estimate how long `cell` takes on `machine`.

    An epoch has whole steps only. The estimate assumes that no block of steps has to be measured
    again because the machine was not quiet.

    Args:
        cell: the cell.
        model: the description of its model.
        data: what says how many examples its dataset has.
        machine: the machine.
    """
    # floating-point operations per second and core, for the processor of the constants above
    speed = FLOPS * math.pow(model.training_flops_per_example / 1e9, FLOPS_EXPONENT)
    crowd = max(1.0, cell.cores / machine.cores)
    busy = cell.nodes + cell.processes - cell.workers
    free = machine.slowness * max(1.0, busy / machine.cores)  # while the share is not enforced
    held = machine.slowness * crowd / cell.cluster.share
    per_epoch = data.train_examples // cell.global_batch
    exchange = STRATEGIES[cell.strategy].exchange_of(cell.options)
    sent = exchange.traffic(Step(cell.nodes, model.payload_bytes, cell.options, per_epoch))
    computing_s = model.training_flops_per_example * cell.batch / speed
    processor_s = computing_s + sent.busiest_bytes / BYTES + STEP_S
    step_s = held * processor_s
    step_s += sent.turns * sent.busiest_bytes * 8 / cell.cluster.link_bit_s
    step_s += sent.messages * cell.cluster.latency_s
    extent = cell.extent
    timed = extent.steps or (extent.epochs or 0) * per_epoch
    first_s = free * processor_s
    tested = data.test_examples if extent.epochs else 0
    at_once = min(cell.nodes, machine.cores)
    test_s = machine.slowness * tested * model.flops_per_example / speed / at_once
    block_s = (extent.untimed_steps + timed) * step_s + held * SPLIT_S * (extent.split_steps > 0)
    process_s = START_PER_NODE_S + LAYER_S * len(model.layers)
    fixed_s = machine.slowness * (START_S + process_s * cell.processes + END_S)
    return Estimate(step_s, fixed_s + first_s + block_s + test_s)


def estimates(cells: Iterable[Cell], machine: Machine) -> list[Estimate | None]:
    """Estimate how long each cell takes; None for a user's own model whose work is not known yet.

    Raises:
        UserError: a dataset is not known, or a file is damaged.
    """
    cells = list(cells)
    first = {(cell.model, cell.dataset): cell for cell in cells}
    works = {trained: work_of(cell) for trained, cell in first.items()}  # reads each file once
    found = [(cell, works[cell.model, cell.dataset]) for cell in cells]
    return [estimate(cell, *work, machine) if work else None for cell, work in found]


def work_of(cell: Cell) -> tuple[Architecture, DatasetInfo] | None:
    """Return what says how much work a cell is: the descriptions of its model and dataset.

    Returns:
        Both; None if the model has not been described, or own data not been prepared.

    Raises:
        UserError: the dataset is not known, or a file is damaged.
    """
    model = description_of(cell)
    manifest = PREPARED / cell.dataset / "manifest.json"
    if model is None or (cell.load and not manifest.is_file()):
        return None
    if cell.load:
        from nodewise.data.manifest import read_manifest  # slow to import, because of NumPy

        return model, read_manifest(manifest)
    return model, find(DATASETS, cell.dataset, Entry)
