"""A cell: one model, trained one way, at one batch size, on one number of nodes, once.

This module knows what identifies a cell and where its files are.
"""

import math
import re
from collections.abc import Collection
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
"""Nodes, workers or devices, that may share a machine."""
MAX_BATCH = 1_000_000
MAX_REPEAT = 1_000_000
WATTS_PER_CORE = 10.0  # declared, not measured: a server's processor at full load, by its cores


def _is_one_line(text: str) -> str:
    if not text.isprintable() or not text.strip():
        bad = next((sign for sign in text if not sign.isprintable()), " ")
        raise ValueError(f"U+{ord(bad):04X} is not allowed, must be one line of printable text")
    return text


# Text that people read: no newlines, no control characters, nothing that turns the direction.
Line = Annotated[str, AfterValidator(_is_one_line)]


def _is_an_option(value: object) -> object:
    plain = value is None or isinstance(value, bool | int | float | str)
    if not plain or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"{value!r:.80} is not allowed, must be true, false, a number or text")
    return value


# The value of a strategy's option, which the strategy checks further.
Option = Annotated[bool | int | float | str | None, BeforeValidator(_is_an_option)]


class Frozen(BaseModel):
    """Immutable and strict: an unknown key or another type is an error, never ignored."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Extent(Frozen):
    """How long a cell trains: `warmup_steps` untimed, then either `steps` or whole `epochs`, timed.

    `split_steps` further steps are run in the split form (compute, wait, communicate and apply
    timed apart) after the timed ones. The evaluation comes last, of what the timed ones trained.
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
        """Steps beside the timed ones: to warm up, split ones, and one before those, to trace."""
        return self.warmup_steps + (self.split_steps + 1 if self.split_steps else 0)


class ClusterSettings(Frozen):
    """What a study says about its nodes. Each kind of cluster has a class of its own: see CLUSTERS.

    The defaults describe nodes that are one whole core each, with links that nothing limits.
    """

    kind: Name

    @property
    def label(self) -> str:
        """The settings in words: equal for two cells if and only if their machines are."""
        return self.kind

    @property
    def share(self) -> float:
        """The part of one core that a node has: time passes `1 / share` slower."""
        return 1.0

    @property
    def link_bit_s(self) -> float:
        """Rate of a node's link in each direction, in bits per second; infinite if unlimited."""
        return math.inf

    @property
    def latency_s(self) -> float:
        """Seconds that a packet takes one way, beside those of the real network."""
        return 0.0

    @property
    def per_machine(self) -> int:
        """How many nodes a machine has, if nodes are workers or devices that share machines."""
        return 1

    def with_per_machine(self, nodes: int) -> Self:
        """Return the settings with `nodes` nodes on each machine, and the same links between them.

        Args:
            nodes: 1 to MOST_PER_MACHINE. Kinds whose nodes share no machines leave it out.
        """
        return self

    def cores(self, nodes: int) -> float:
        """Return how many cores of this machine `nodes` nodes ask for."""
        return float(nodes)

    def for_nodes(self, nodes: int) -> Self:
        """Return the settings that matter to a cell in which `nodes` nodes train."""
        return self

    def check_nodes(self, most: int, one_process: Collection[str]) -> None:
        """Check that an experiment can be measured here.

        Args:
            most: the most nodes that train.
            one_process: strategies of the experiment whose nodes are devices of one process.

        Raises:
            ValueError: it cannot; the text starts with the key that is wrong.
        """


CLUSTERS: Registry[type[ClusterSettings]] = Registry(
    "cluster kind", "nodewise.cluster.kinds", "nodewise.clusters"
)


def _settings_of_kind(value: object) -> object:
    """Validate settings by the class of their kind."""
    if not isinstance(value, dict) or "kind" not in value:
        return value
    kind = value["kind"]
    if not isinstance(kind, str) or kind not in CLUSTERS:
        allowed = ", ".join(CLUSTERS)
        raise ValueError(f"kind: {kind!r:.80} is not allowed, must be one of {allowed}")
    return CLUSTERS[kind].model_validate(value)


Cluster = Annotated[SerializeAsAny[ClusterSettings], BeforeValidator(_settings_of_kind)]


def node_in_words(label: str) -> str:
    """Return what readers are told that a node is, by the `label` of its cluster."""
    return "unthrottled process" if label == "local" else label


# How examples reach a worker: from its own shard; by reading all and skipping the others' part; or
# from nodes that do nothing but preprocess (TensorFlow's data service).
Input = Literal["sharded", "unsharded", "service"]

# Besides, whole global batches, for strategies that do not cut them into a part for each worker.
CellInput = Input | Literal["whole"]


_PATH = r"[A-Za-z0-9_./][A-Za-z0-9_./-]*"
SAVED_MODEL = ".keras"


def _names_a_function(spec: str) -> str:
    if not re.fullmatch(rf"{_PATH}:[A-Za-z_]\w*", spec) or len(spec) > 200:
        raise ValueError("must be path/file.py:function or package.module:function")
    return spec


def _names_a_model(spec: str) -> str:
    if spec.endswith(SAVED_MODEL) and re.fullmatch(_PATH, spec) and len(spec) <= 200:
        return spec
    try:
        return _names_a_function(spec)
    except ValueError as error:
        raise ValueError(f"{error}, or a saved model, path/model{SAVED_MODEL}") from None


# Where a user's own data comes from, and their own model, which may be a saved one, too.
Spec = Annotated[str, AfterValidator(_names_a_function)]
ModelSpec = Annotated[str, AfterValidator(_names_a_model)]


class Feeding(Frozen):
    """How workers are fed. `preprocessing_nodes` are nodes beside those that train."""

    input: CellInput = "sharded"
    preprocessing_nodes: int = Field(default=0, ge=0, le=MAX_NODES)

    @model_validator(mode="after")
    def _service_has_nodes(self) -> Self:
        if (self.input == "service") != (self.preprocessing_nodes > 0):
            raise ValueError("preprocessing_nodes: 1 or more with input service, else none")
        return self


class Cell(Feeding):
    """Everything that determines one measurement. `batch` is examples per worker and step.

    `build` and `load` are there if model or dataset are a user's own, not the project's. `variant`
    is the study's own name for the strategy with just these `options`, if it has given one.
    `exchange` is how the strategy brings gradients together, from which the law of its steps
    follows. `servers` are nodes that hold parameters, beside those that train. With `one_process`
    the nodes that train are devices of one process.
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
    cluster: Cluster
    build: ModelSpec | None = None
    load: Spec | None = None
    batch: int = Field(ge=1, le=MAX_BATCH)
    nodes: int = Field(ge=1, le=MAX_NODES)
    repeat: int = Field(ge=0, le=MAX_REPEAT)
    extent: Extent
    seed: int = Field(ge=0, lt=2**31)
    time_limit_s: float = Field(gt=0, allow_inf_nan=False)

    @property
    def declaration(self) -> str:
        """All that decides what is measured, as text: how long it may take does not."""
        return self.model_dump_json(exclude={"time_limit_s", "exchange"})

    @property
    def global_batch(self) -> int:
        """Examples per step over all workers: batch × nodes."""
        return self.batch * self.nodes

    @property
    def strategy_name(self) -> str:
        """What the strategy is called in the study."""
        return self.variant or self.strategy

    @property
    def workers(self) -> int:
        """Processes that train: one per node, unless the nodes are devices of one process."""
        return 1 if self.one_process else self.nodes

    @property
    def processes(self) -> int:
        """Processes in all: those that train, then those that hold parameters, then preprocess."""
        return self.workers + self.servers + self.preprocessing_nodes

    @property
    def machines(self) -> Cluster:
        """The cluster as it is for this cell."""
        return self.cluster.for_nodes(self.nodes)

    @property
    def cores(self) -> float:
        """How many cores of this machine the nodes ask for."""
        return self.machines.cores(self.nodes + self.processes - self.workers)

    @property
    def id(self) -> str:
        """Readable, unique within a study, and a relative path: `experiment/model/strategy/…`."""
        axes = f"batch~{self.batch}", f"nodes~{self.nodes}", f"repeat~{self.repeat}"
        return "/".join((self.experiment, self.model, self.strategy_name, *axes))


_ID = re.compile(
    r"(?P<experiment>[a-z][a-z0-9_]*)/(?P<model>[a-z][a-z0-9_]*)/(?P<strategy>[a-z][a-z0-9_]*)"
    r"/batch~(?P<batch>[1-9]\d*)/nodes~(?P<nodes>[1-9]\d*)/repeat~(?P<repeat>0|[1-9]\d*)"
)


def parse_id(cell_id: str) -> dict[str, str | int]:
    """Return the axes that a cell id spells out.

    Raises:
        ValueError: `cell_id` is not of the form that `Cell.id` gives.
    """
    match = _ID.fullmatch(cell_id)
    if match is None:
        raise ValueError(f"{cell_id!r} is not a cell id")
    axes: dict[str, str | int] = dict(match.groupdict())
    return axes | {key: int(axes[key]) for key in ("batch", "nodes", "repeat")}
