"""Definition of a cell: one measurement, and what identifies it.

A cell trains one model with one strategy at one batch size on one number of nodes, once. The id of
a cell is also the path of its files.
"""

import math
from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SerializeAsAny,
    StringConstraints,
    model_validator,
)

from nodewise.core.registry import Registry

NAME = r"^[a-z][a-z0-9_]*$"
Name = Annotated[str, StringConstraints(pattern=NAME, max_length=64)]

MAX_NODES = 64
MOST_PER_MACHINE = 16
"""Largest number of nodes (workers or devices) that may share a machine."""
MAX_BATCH = 1_000_000
MAX_REPEAT = 1_000_000
WATTS_PER_CORE = 10.0  # assumed, not measured: a server's processor at full load, per core


def _is_one_line(text: str) -> str:
    if not text.isprintable() or not text.strip():
        bad = next((sign for sign in text if not sign.isprintable()), " ")
        raise ValueError(f"U+{ord(bad):04X} is not allowed, must be one line of printable text")
    return text


# Text for readers: one line, without control characters or marks that change the text direction.
Line = Annotated[str, AfterValidator(_is_one_line)]


def _is_an_option(value: object) -> object:
    plain = value is None or isinstance(value, bool | int | float | str)
    if not plain or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{value!r:.80} is not allowed, must be true, false, a number or text")
    return value


# Value of an option of a strategy. The strategy itself checks it further.
Option = Annotated[bool | int | float | str | None, BeforeValidator(_is_an_option)]


class Frozen(BaseModel):
    """Immutable, strict model: unknown keys and wrong types are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Extent(Frozen):
    """How long a cell trains.

    A cell runs, in this order:

    1. `warmup_steps` steps that are not timed;
    2. either `steps` steps or whole `epochs`, which are timed;
    3. `split_steps` steps in split form: compute, wait, communicate and apply are timed separately;
    4. the evaluation, of the model as the timed steps trained it.
    """

    warmup_steps: int = Field(default=5, ge=1, le=10_000)
    steps: int | None = Field(default=None, ge=2, le=1_000_000)
    epochs: int | None = Field(default=None, ge=1, le=1_000)
    split_steps: int = Field(default=20, ge=0, le=10_000)

    @model_validator(mode="after")
    def _one_of_steps_and_epochs(self) -> Self:
        if (self.steps is None) == (self.epochs is None):
            raise ValueError("give either steps or epochs, one of them")
        return self

    @property
    def untimed_steps(self) -> int:
        """Number of untimed steps: warm-up and split steps, and one to trace before split steps."""
        return self.warmup_steps + (self.split_steps + 1 if self.split_steps else 0)


class ClusterSettings(Frozen):
    """Settings of a study's nodes. Each kind of cluster has its own subclass, see CLUSTERS.

    The defaults describe nodes with one whole core each and unlimited links.
    """

    kind: Name

    @property
    def label(self) -> str:
        """The settings in words. Two cells have equal labels if and only if their machines are."""
        return self.kind

    @property
    def share(self) -> float:
        """Share of one core that a node has. Everything takes `1 / share` times as long on it."""
        return 1.0

    @property
    def link_bit_s(self) -> float:
        """Rate of a node's link in each direction, in bit/s; infinite if unlimited."""
        return math.inf

    @property
    def latency_s(self) -> float:
        """One-way latency in seconds that is added to that of the real network."""
        return 0.0

    @property
    def per_machine(self) -> int:
        """Number of nodes on each machine: over 1 if they are workers or devices that share it."""
        return 1

    def with_per_machine(self, nodes: int) -> Self:
        """Return the settings with `nodes` nodes on each machine, and the same links between them.

        Args:
            nodes: 1 to MOST_PER_MACHINE. Ignored by kinds whose nodes do not share machines.
        """
        return self

    def cores(self, nodes: int) -> float:
        """Return how many cores of this machine `nodes` nodes need."""
        return float(nodes)

    def for_nodes(self, nodes: int) -> Self:
        """Return the settings that apply to a cell in which `nodes` nodes train."""
        return self

    def check_nodes(self, cells: "Sequence[Cell]") -> None:
        """Check that the cells of an experiment can be measured on this cluster.

        Raises:
            ValueError: one of them cannot; the message starts with the wrong key.
        """


CLUSTERS: Registry[type[ClusterSettings]] = Registry(
    "cluster kind", "nodewise.cluster.kinds", "nodewise.clusters"
)


def _settings_of_kind(value: object) -> object:
    """Validate settings with the class of their kind."""
    if not isinstance(value, dict) or "kind" not in value:
        return value
    kind = value["kind"]
    if not isinstance(kind, str) or kind not in CLUSTERS:
        allowed = ", ".join(CLUSTERS)
        raise ValueError(f"kind: {kind!r:.80} is not allowed, must be one of {allowed}")
    return CLUSTERS[kind].model_validate(value)


AnyCluster = Annotated[SerializeAsAny[ClusterSettings], BeforeValidator(_settings_of_kind)]


def node_in_words(label: str) -> str:
    """Return the description of a node for readers, given the `label` of its cluster."""
    return "process of one machine" if label == "local" else label


# How a worker gets its examples:
# - sharded: it reads its own shard.
# - unsharded: it reads all examples and skips those of the other workers.
# - service: separate nodes preprocess them (TensorFlow's data service).
# - own: the user's own pipeline runs as it is, and is divided as `fit` does.
Input = Literal["sharded", "unsharded", "service", "own"]

# "whole": a worker gets whole global batches, for strategies that do not divide these by worker.
CellInput = Input | Literal["whole"]


FUNCTION = r"[A-Za-z0-9_./][A-Za-z0-9_./-]*:[A-Za-z_]\w*"
# A function that returns a user's own model or data.
Spec = Annotated[str, StringConstraints(pattern=rf"^{FUNCTION}$", max_length=200)]


class Feeding(Frozen):
    """How workers get their examples.

    `preprocessing_nodes` is the number of nodes that preprocess, in addition to those that train.
    """

    input: CellInput = "sharded"
    preprocessing_nodes: int = Field(default=0, ge=0, le=MAX_NODES)

    @model_validator(mode="after")
    def _service_has_nodes(self) -> Self:
        if (self.input == "service") != (self.preprocessing_nodes > 0):
            raise ValueError("preprocessing_nodes: 1 or more with input service, else none")
        return self


class Cell(Feeding):
    """Everything that determines one measurement.

    Args:
        variant: the study's own name for the strategy with these `options`, if it has one.
        exchange: how the strategy combines gradients. It decides which law its step times follow.
        servers: number of nodes that hold parameters, in addition to those that train.
        one_process: whether the nodes that train are devices of one process.
        build: spec of the function that builds the model, if it is a user's own. Older records also
            name files that Keras saved.
        load: spec of the function that loads the data, if it is a user's own.
        batch: examples per worker and step.
    """

    study: Name
    experiment: Name
    model: Name
    dataset: Name
    strategy: Name
    variant: Name | None = None
    options: dict[Name, Option] = Field(default_factory=dict)
    exchange: Line | None = None
    servers: int = Field(default=0, ge=0, le=MAX_NODES)
    one_process: bool = False
    cluster: AnyCluster
    build: Line | None = None
    load: Spec | None = None
    batch: int = Field(ge=1, le=MAX_BATCH)
    nodes: int = Field(ge=1, le=MAX_NODES)
    repeat: int = Field(ge=0, le=MAX_REPEAT)
    extent: Extent
    seed: int = Field(ge=0, lt=2**31)
    time_limit_s: float = Field(gt=0, allow_inf_nan=False)

    @model_validator(mode="after")
    def _own_input_has_a_function(self) -> Self:
        if self.input == "own" and self.load is None:
            raise ValueError("input: own needs a dataset of your own, path/file.py:function")
        return self

    @property
    def declaration(self) -> str:
        """Text of all fields that determine what is measured: not the time limit and `exchange`."""
        return self.model_dump_json(exclude={"time_limit_s", "exchange"})

    @property
    def global_batch(self) -> int:
        """Examples per step of all workers together: batch × nodes."""
        return self.batch * self.nodes

    @property
    def strategy_name(self) -> str:
        """Name of the strategy in the study."""
        return self.variant or self.strategy

    @property
    def workers(self) -> int:
        """Number of processes that train: one per node, or 1 if nodes are devices of a process."""
        return 1 if self.one_process else self.nodes

    @property
    def processes(self) -> int:
        """Number of all processes. By rank: workers, then parameter servers, then preprocessors."""
        return self.workers + self.servers + self.preprocessing_nodes

    @property
    def machines(self) -> ClusterSettings:
        """The cluster settings that apply to this cell's number of nodes."""
        return self.cluster.for_nodes(self.nodes)

    @property
    def cores(self) -> float:
        """Number of cores of this machine that the nodes need."""
        return self.machines.cores(self.nodes + self.processes - self.workers)

    @property
    def id(self) -> str:
        """Readable id, unique within a study; also a relative path: `experiment/model/…`."""
        axes = f"batch~{self.batch}", f"nodes~{self.nodes}", f"repeat~{self.repeat}"
        return "/".join((self.experiment, self.model, self.strategy_name, *axes))
