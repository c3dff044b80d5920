"""What a model is: its layers, their parameters and operations; what `describe-model` writes.

One JSON file per model, checked against the one schema below, so that pages and charts know every
layer without building the model. All numbers are counted from the layers' shapes: none is timed.
"""

from typing import Literal, Self

from pydantic import Field, model_validator

from nodewise.core.cell import Frozen, Name
from nodewise.results.quantities import Count

FLOAT32_BYTES = 4


class Layer(Frozen):
    """One layer, or one use of it, in an order in which they can be computed.

    Attributes:
        name: unique in the model; a layer of a model inside has that one's name before a slash.
        kind: its class.
        detail: its main settings in words, such as `3×3, 64 filters`; may be empty.
        inputs: the names of the layers whose outputs it computes on; masks are left out.
        output_shape: of one example.
        parameters: all of them, of which `trainable` are trained.
        flops: of the forward pass of one example.
        training_flops: of forward and backward pass of one example, as far as training needs them.
        uncounted: kinds of TensorFlow's operations in its graph that nothing counts.
    """

    name: str = Field(min_length=1)
    kind: str = Field(min_length=1)
    detail: str
    inputs: list[str]
    output_shape: list[Count]
    parameters: Count
    trainable: Count
    flops: Count
    training_flops: Count
    uncounted: list[str] = Field(default_factory=list)

    @property
    def state(self) -> str:
        """Whether its parameters are `trained` or `frozen`; empty if it has none."""
        return "trained" if self.trainable else "frozen" if self.parameters else ""


class Memory(Frozen):
    """What a process needs in memory that trains a model.

    Attributes:
        weights_bytes: of all weights, trained and frozen.
        gradients_bytes: of one gradient for each trainable parameter.
        optimizer_bytes: of the variables of the optimizers.
        fixed_bytes, bytes_per_example: a line through the peaks of real training steps with
            batches of several sizes; TensorFlow and all of the above are in the fixed part.
        measured: the peak of a training step, by batch.
    """

    weights_bytes: Count
    gradients_bytes: Count
    optimizer_bytes: Count
    fixed_bytes: Count
    bytes_per_example: Count
    measured: dict[int, Count] = Field(min_length=1)

    def peak_bytes(self, batch: int) -> int:
        """Return the memory of a process that trains batches of `batch` examples."""
        return self.fixed_bytes + batch * self.bytes_per_example


class Architecture(Frozen):
    """A model.

    Attributes:
        about: the paragraphs of its file's text.
        input_shape: of one prepared example; empty if it has several parts, or varies in size.
        trainable, total: numbers of parameters.
        payload_bytes: of a gradient, one float32 for each trainable parameter.
        flops_per_example: of the forward pass; a multiply-add is 2.
        training_flops_per_example: of forward and backward pass.
        stages: into how many the model can be cut.
        dense_pairs: pairs of dense layers in a row, which can be split over nodes.
        memory: None if it was not measured.
    """

    schema_version: Literal[2] = 2
    model: Name
    about: list[str] = Field(min_length=1)
    input_shape: list[Count]
    layers: list[Layer] = Field(min_length=1)
    trainable: Count
    total: Count
    payload_bytes: Count
    flops_per_example: Count
    training_flops_per_example: int = Field(ge=1)
    stages: int = Field(ge=1)
    dense_pairs: Count
    memory: Memory | None = None

    @property
    def has_layers(self) -> bool:
        """Whether `layers` are those of the model: not one layer that stands for all of it."""
        return len(self.layers) > 1

    @property
    def flops_per_payload_byte(self) -> float:
        """Operations of training one example, for each byte that a worker then exchanges.

        A batch of *b* examples has *b* times as many operations for the same bytes.
        """
        return self.training_flops_per_example / self.payload_bytes

    @model_validator(mode="after")
    def _adds_up(self) -> Self:
        sums = {
            "trainable": sum(layer.trainable for layer in self.layers),
            "total": sum(layer.parameters for layer in self.layers),
            "flops_per_example": sum(layer.flops for layer in self.layers),
            "training_flops_per_example": sum(layer.training_flops for layer in self.layers),
            "payload_bytes": FLOAT32_BYTES * self.trainable,
        }
        for name, expected in sums.items():
            if getattr(self, name) != expected:
                raise ValueError(f"{name} is not what the layers add up to, {expected}")
        if not self.trainable:
            raise ValueError("no layer is trained")
        return self

    @model_validator(mode="after")
    def _is_in_order(self) -> Self:
        known: set[str] = set()
        for layer in self.layers:
            if layer.name in known:
                raise ValueError(f"two layers are called {layer.name}")
            if not known.issuperset(layer.inputs):
                raise ValueError(f"{layer.name} comes before what it computes on")
            known.add(layer.name)
        return self
