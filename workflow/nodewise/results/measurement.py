"""The results of a cell that ran to its end: steps of each worker, epochs, and the conditions."""

from typing import Self

from pydantic import Field, model_validator

from nodewise.core.cell import Frozen, Line, Name
from nodewise.results.quantities import (
    Count,
    Finite,
    Joules,
    Micros,
    Seconds,
    Share,
    StepMicros,
    refuse,
)

_SLACK = 1.05  # the whole and its steps are timed apart


class StartUp(Frozen):
    """Seconds since the rule started, at each milestone of the launch."""

    imported_s: Seconds
    workers_ready_s: Seconds
    first_timed_step_s: Seconds

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        if self.workers_ready_s < self.imported_s:
            refuse("workers_ready_s", self.workers_ready_s, "at least imported_s")
        if self.first_timed_step_s < self.workers_ready_s:
            refuse("first_timed_step_s", self.first_timed_step_s, "at least workers_ready_s")
        return self


class Split(Frozen):
    """The parts of each split-form step of one worker; the lists have one entry a step.

    `wait_us` is the time in a barrier after the gradient: waiting for the slowest worker plus the
    cost of the barrier itself, whose idle median is `idle_barrier_us`; with a parameter server,
    what the server held the worker back. Where workers exchange in between computing (split dense
    layers, tensor parallelism) the barrier is before the gradient, and waiting for the slowest
    within the step is part of communicating, or of computing. `step_us` is timed around the parts,
    which should add up to it; records of before 24 November 2026 have none.
    """

    compute_us: list[Micros] = Field(min_length=1)
    wait_us: list[Micros]
    communicate_us: list[Micros]
    apply_us: list[Micros]
    step_us: list[StepMicros] = Field(default_factory=list)
    idle_barrier_us: Micros

    @model_validator(mode="after")
    def _equally_long(self) -> Self:
        steps = self.step_us or self.compute_us
        parts = (self.compute_us, self.wait_us, self.communicate_us, self.apply_us, steps)
        if len({len(part) for part in parts}) != 1:
            raise ValueError("compute, wait, communicate and apply must have one entry per step")
        return self


class WorkerResult(Frozen):
    """What one worker saw during the timed steps.

    `device` is what it computed with; none in records from before that was noted. `input_us` is
    the part of each step that it waited for its batch. `observed` is what a strategy notes of its
    own, such as the staleness of each update.
    """

    rank: Count
    device: Line | None = None
    shard_examples: Count
    step_us: list[StepMicros] = Field(min_length=1)
    input_us: list[Micros]
    elapsed_s: Seconds
    cpu_s: Seconds
    bytes_sent: Count
    bytes_received: Count
    bytes_retransmitted: Count
    split: Split | None
    observed: dict[Name, list[Finite]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _steps_make_the_whole(self) -> Self:
        steps = len(self.step_us)
        if len(self.input_us) != steps:
            refuse("input_us", f"{len(self.input_us)} entries", f"{steps}, one for each step")
        stepping_s = sum(self.step_us) / 1e6
        if self.elapsed_s < stepping_s / _SLACK:
            refuse("elapsed_s", self.elapsed_s, f"at least {stepping_s:g}, the sum of its steps")
        return self


class NodeUsage(Frozen):
    """What one emulated node used: CPU time, how long its limit held it back, bytes of its link.

    Bytes are those of whole frames, headers and all. `dropped_packets` are what the queues of the
    link refused. It is the normal state of a limited node to be throttled in every period.
    """

    cpu_s: Seconds
    periods: Count
    throttled_periods: Count
    throttled_s: Seconds
    sent_bytes: Count
    received_bytes: Count
    dropped_packets: Count

    def __sub__(self, earlier: "NodeUsage") -> "NodeUsage":
        """Return what was used between two readings."""
        then = earlier.model_dump()
        now = self.model_dump()
        return NodeUsage.model_validate({name: max(0, now[name] - then[name]) for name in now})


class Conditions(Frozen):
    """What a block of timed and split steps ran under; `window_s` seconds by the clock.

    `reference_before_us` and `reference_after_us` are the CPU time of one fixed piece of work:
    less is a faster machine. `stolen_s` and `foreign_cpu_s` are summed over the cores. `nodes` is
    empty unless the nodes are emulated. `outside` names the thresholds that the block failed.
    """

    window_s: Seconds
    reference_before_us: int = Field(ge=1)
    reference_after_us: int = Field(ge=1)
    stolen_s: Seconds
    foreign_cpu_s: Seconds
    nodes: list[NodeUsage]
    outside: list[str]


class Epoch(Frozen):
    """Training loss and accuracy over one epoch (or over the timed steps), all workers together.

    They are what Keras' `fit` says, None where it would say neither.
    """

    epoch: int = Field(ge=1)
    steps: int = Field(ge=1)
    seconds: Seconds
    loss: Finite | None
    accuracy: Share | None


class Evaluation(Frozen):
    """The model on the test examples, after whole epochs."""

    examples: int = Field(ge=1)
    loss: Finite | None
    accuracy: Share | None


class Measurement(Frozen):
    """The results of a cell that ran to its end.

    `conditions` are those of the block that was kept, `discarded` those of the blocks before it
    that were outside the thresholds and repeated.

    `energy_j` is what the machine's own meters counted over the timed steps, if it has any and the
    nodes are not emulated. `others_cpu_s` is the CPU time, from the first warm-up step to the last
    split one, of the nodes that do not train but hold parameters or preprocess.
    """

    trainable_parameters: Count
    total_parameters: Count
    payload_bytes: Count
    steps_per_epoch: int = Field(ge=1)
    whole_epochs: bool
    start_up: StartUp
    workers: list[WorkerResult] = Field(min_length=1)
    epochs: list[Epoch] = Field(min_length=1)
    test: Evaluation | None
    oversubscribed: bool
    energy_j: Joules | None
    others_cpu_s: Seconds
    conditions: Conditions
    discarded: list[Conditions]

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        total = self.total_parameters
        if self.trainable_parameters > total:
            refuse("trainable_parameters", self.trainable_parameters, f"at most {total}, of all")
        for rank, worker in enumerate(self.workers):
            if worker.rank != rank:
                refuse(f"workers[{rank}].rank", worker.rank, str(rank))
            steps = len(worker.step_us)
            if steps != self.steps:
                allowed = f"{self.steps}, those of all epochs"
                refuse(f"workers[{rank}].step_us", f"{steps} steps", allowed)
        return self

    @property
    def steps(self) -> int:
        """Timed steps."""
        return sum(epoch.steps for epoch in self.epochs)

    @property
    def elapsed_s(self) -> float:
        """Seconds of the timed training, on the clock of the slowest worker."""
        return max(worker.elapsed_s for worker in self.workers)
