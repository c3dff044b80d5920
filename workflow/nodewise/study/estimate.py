"""Estimate how long a study takes on this machine, without TensorFlow.

    step = floating-point operations / speed + exchange + overhead
    cell = start + steps × step + evaluation

The speed follows from the time of the reference step on this machine. Computing takes `1 / share`
times as long on an emulated node, and longer still if the nodes ask for more cores than there are.
"""

import math
import statistics
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from nodewise.core.cell import Cell
from nodewise.core.units import counted
from nodewise.data.registry import find
from nodewise.models.facts import facts, own_description, read_own
from nodewise.results.model_description import Architecture
from nodewise.results.record import Record, recorded
from nodewise.strategies import STRATEGIES
from nodewise.strategies.bytes_sent import Trained, ring
from nodewise.study.config import DATASETS, Config
from nodewise.study.memory_fit import misfit

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


class Planned(NamedTuple):
    """A cell; its estimate, None for a user's own model; its record, None if there is none.

    `factor` is how many times longer than estimated the recorded steps of its model took.
    """

    cell: Cell
    estimate: Estimate | None
    record: Record | None
    factor: float = 1.0

    @property
    def done(self) -> bool:
        """Whether there is a result."""
        return self.record is not None and self.record.status == "ok"

    @property
    def to_do_s(self) -> float:
        """Seconds that are still to come."""
        if self.estimate is None or self.record is not None:
            return 0.0
        return self.estimate.corrected(self.factor).cell_s


def plan(study: Config, records: Path, machine: Machine) -> list[Planned]:
    """Estimate every cell of `study`; its records, as far as there are any, are in `records`.

    Raises:
        UserError: a dataset or a model is not known.
    """
    cells = study.cells()
    planned = [
        Planned(cell, estimated, recorded(cell, records))
        for cell, estimated in zip(cells, estimates(cells, machine), strict=True)
    ]
    models = {cell.model for cell in cells}
    factors = {name: _factor(one for one in planned if one.cell.model == name) for name in models}
    return [one._replace(factor=factors[one.cell.model]) for one in planned]


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


def _factor(planned: Iterable[Planned]) -> float:
    """Return real over estimated seconds of a step, median of the recorded cells; 1 without any."""
    seen = [
        one.record.result.elapsed_s / one.record.result.steps / one.estimate.step_s
        for one in planned
        if one.estimate and one.record and one.record.result
    ]
    return statistics.median(seen) if seen else 1.0


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


def ratios(planned: Iterable[Planned]) -> list[float]:
    """Return real over estimated seconds of each cell that ran to its end, smallest first."""
    return sorted(
        (one.record.finished_at - one.record.started_at).total_seconds() / one.estimate.cell_s
        for one in planned
        if one.estimate and one.record and one.record.status == "ok"
    )


def report(study: Config, planned: Sequence[Planned], machine: Machine) -> str:
    """Return the plan as text: a line for each experiment, and how far to trust it."""
    lines = [
        f"{study.title} ({study.name})",
        f"estimated on {counted(machine.cores, 'core')}, "
        f"reference step {machine.reference_s * 1e3:.1f} ms",
        "",
        _row("experiment", "cells", "done", "failed", "time left (estimate)"),
    ]
    for name in study.experiments:
        part = [one for one in planned if one.cell.experiment == name]
        lines.append(_row(name, *_sums(part)))
    lines.append(_row("total", *_sums(planned)))
    return "\n".join([*lines, *_remarks(study, planned, machine)])


def _sums(planned: Sequence[Planned]) -> tuple[str, str, str, str]:
    unknown = sum(one.estimate is None and one.record is None for one in planned)
    known_s = sum(one.to_do_s for one in planned)
    times = [in_words(known_s)] if known_s or not unknown else []
    times += [f"unknown for {counted(unknown, 'cell')} of your own models"] if unknown else []
    done = sum(one.done for one in planned)
    failed = sum(one.record is not None for one in planned) - done
    return str(len(planned)), str(done), str(failed), " + ".join(times)


def _remarks(study: Config, planned: Sequence[Planned], machine: Machine) -> Iterator[str]:
    yield ""
    yield from _other_steps(planned)
    if any(one.record and not one.done for one in planned):
        yield "Failed and refused cells are not repeated. To try again: nodewise missing --forget"
    limit = study.cell_time_limit_s
    late = [one.cell.id for one in planned if one.to_do_s > limit]
    if late:
        yield f"Cells that may take longer than cell_time_limit_s ({limit:g}): {', '.join(late)}."
    yield from _too_large(planned, machine)
    yield from _not_described(planned)
    seen = ratios(planned)
    if seen:
        middle, least, most = statistics.median(seen), seen[0], seen[-1]
        yield (
            f"Recorded cells took {middle:.2f} times their estimate (median of {len(seen)}; "
            f"{least:.2f} to {most:.2f}); the time left is corrected for this, model by model."
        )
    elif planned:
        yield "No cell has a record yet: the estimate may be wrong by a factor of 2."


def _too_large(planned: Sequence[Planned], machine: Machine) -> Iterator[str]:
    """Say which cells will be refused because this machine has too little memory for them."""
    to_do = [one.cell for one in planned if one.record is None]
    here = [cell for cell in to_do if cell.cluster.cores(1)]  # others' nodes are other hosts
    reasons = [misfit(cell, machine.memory_bytes) for cell in here]
    for reason, cells in Counter(filter(None, reasons)).items():
        yield f"{counted(cells, 'cell')} will be refused: {reason}."


def _not_described(planned: Sequence[Planned]) -> Iterator[str]:
    """Name the commands that let the user's own models be estimated."""
    unknown = [one.cell for one in planned if one.estimate is None and one.record is None]
    named = {(cell.build, cell.load or cell.dataset) for cell in unknown}
    for build, data in sorted(named):
        yield f"To estimate your own model: nodewise describe-model {build} --dataset {data}"


def _other_steps(planned: Sequence[Planned]) -> Iterator[str]:
    """List the other steps of a study that has cells left to measure."""
    if all(one.record for one in planned):
        return
    steps = ["data, models and noise scales"]
    if any(one.cell.cluster.kind == "emulated" for one in planned):
        steps.append("the calibration of the emulated nodes")
    if any(one.cell.strategy == "horovod" for one in planned):
        steps.append("Horovod's build")
    yield f"In addition, once, a few minutes each: {', '.join(steps)}."


def _row(name: str, cells: str, done: str, failed: str, time: str) -> str:
    return f"{name:<32} {cells:>6} {done:>6} {failed:>6}  {time}"


def in_words(seconds: float) -> str:
    """Return a duration in words.

    Example:
        >>> in_words(0), in_words(42.4), in_words(61), in_words(3700), in_words(200_000)
        ('0 s', '42 s', '1 min', '1 h 2 min', '2 days 7 h')
    """
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    if minutes < 48 * 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes // 1440} days {minutes % 1440 // 60} h"
