"""The schema of the results of a successful cell: steps of each worker, epochs, conditions."""

from typing import Self

from pydantic import Field, model_validator

from nodewise.core.cell import Frozen, Line, Name
from nodewise.results.quantities import Count, Finite, Joules, Micros, Seconds, Share, StepMicros


class StartUp(Frozen):
    """Seconds from the start of the rule to each milestone of the launch."""

    imported_s: Seconds
    workers_ready_s: Seconds
    first_timed_step_s: Seconds


class Split(Frozen):
    """The parts of each split step of one worker. Lists have one entry per step.

    `wait_us` is the time in a barrier after the gradient: waiting for the slowest worker, plus the
    cost of the barrier itself, whose median when idle is `idle_barrier_us`. With a parameter server
    it is the time that the server holds the worker back.

    `step_us` is timed around the parts, which should add up to it. Records from before 24 November
    2026 do not have it.
    """

    compute_us: list[Micros] = Field(min_length=1)
    wait_us: list[Micros]
    communicate_us: list[Micros]
    apply_us: list[Micros]
    step_us: list[StepMicros] = Field(default_factory=list)
    idle_barrier_us: Micros

    @model_validator(mode="after")
    def _equally_long(self) -> Self:
        around = self.step_us or self.compute_us
        parts = (self.compute_us, self.wait_us, self.communicate_us, self.apply_us, around)
        if len({len(part) for part in parts}) != 1:
            raise ValueError("each part must have one entry per step")
        return self


class WorkerResult(Frozen):
    """The measurements of one worker during the timed steps.

    `device` is the device that it computed on; None in old records. `input_us` is the time of each
    step spent waiting for the batch. `observed` holds values that a strategy notes itself, such as
    the staleness of each update.
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


class NodeUsage(Frozen):
    """Resources that one emulated node used: CPU time, throttling by its limit, bytes on its link.

    Bytes are those of whole frames, including headers. `dropped_packets` counts packets dropped by
    the queues of the link. It is normal that a limited node is throttled in every period.
    """

    cpu_s: Seconds
    periods: Count
    throttled_periods: Count
    throttled_s: Seconds
    sent_bytes: Count
    received_bytes: Count
    dropped_packets: Count

    def __sub__(self, earlier: "NodeUsage") -> "NodeUsage":
        """Return the usage between two readings."""
        then = earlier.model_dump()
        return NodeUsage(
            **{name: max(0, now - then[name]) for name, now in self.model_dump().items()}
        )


class Conditions(Frozen):
    """The conditions of a block of timed and split steps, which took `window_s` wall seconds.

    `reference_before_us` and `reference_after_us` are the CPU time of a fixed piece of work: less
    means a faster machine. `stolen_s` and `foreign_cpu_s` are sums over the cores: steal time, and
    CPU time of other processes. `nodes` is empty unless nodes are emulated. `outside` has a message
    for each quiet-machine threshold that the block failed.
    """

    window_s: Seconds
    reference_before_us: int = Field(ge=1)
    reference_after_us: int = Field(ge=1)
    stolen_s: Seconds
    foreign_cpu_s: Seconds
    nodes: list[NodeUsage]
    outside: list[str]


class Epoch(Frozen):
    """Training loss and accuracy over one epoch (or over the timed steps) of all workers together.

    They are the values that Keras' `fit` reports; None where it would not report them.
    """

    epoch: int = Field(ge=1)
    steps: int = Field(ge=1)
    seconds: Seconds
    loss: Finite | None
    accuracy: Share | None


class Evaluation(Frozen):
    """Loss and accuracy of the model on the test examples, after whole epochs."""

    examples: int = Field(ge=1)
    loss: Finite | None
    accuracy: Share | None


class Measurement(Frozen):
    """The results of a successful cell.

    `conditions` are those of the block that was kept. `discarded` are those of earlier blocks that
    were repeated because they were outside the quiet-machine thresholds.

    `energy_j` is the energy of the timed steps by the machine's own meters; None if it has none or
    if nodes are emulated. `others_cpu_s` is the CPU time of nodes that do not train (parameter
    servers and preprocessors), from the first warm-up step to the last split step.
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
    energy_j: Joules | None = None
    others_cpu_s: Seconds
    conditions: Conditions
    discarded: list[Conditions]

    @model_validator(mode="after")
    def _one_time_per_step(self) -> Self:
        for rank, worker in enumerate(self.workers):
            if (worker.rank, len(worker.step_us), len(worker.input_us)) != (
                rank,
                *2 * [self.steps],
            ):
                raise ValueError(
                    f"workers[{rank}]: must be of rank {rank}, with {self.steps} steps and inputs"
                )
        return self

    @property
    def steps(self) -> int:
        """Number of timed steps."""
        return sum(epoch.steps for epoch in self.epochs)

    @property
    def elapsed_s(self) -> float:
        """Wall seconds of the timed training, of the slowest worker."""
        return max(worker.elapsed_s for worker in self.workers)
