"""The schema of what `describe-model` writes: layers of a model, their parameters and operations.

There is one JSON file per model, so that pages and charts know every layer without building the
model. All numbers except those of memory are counted from the layers' shapes. None is timed.
"""

from typing import Literal

from pydantic import Field

from nodewise.core.cell import Frozen, Name
from nodewise.results.record import Count

FLOAT32_BYTES = 4


class Layer(Frozen):
    """One layer, or one use of a shared layer.

    Attributes:
        name: unique name in the model. Layers of a nested model have its name and a slash in front.
        kind: class of the layer.
        detail: main settings in words, such as `3×3, 64 filters`; may be empty.
        inputs: names of the layers whose outputs it takes, without masks.
        output_shape: shape of the output of one example.
        parameters: number of all parameters.
        trainable: number of trained parameters.
        flops: operations of the forward pass of one example.
        training_flops: operations of the forward and backward pass of one example, as far as
            training needs them.
        uncounted: kinds of TensorFlow operations in its graph that are not counted.
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
        """`trained` if it has trained parameters, `frozen` if all are frozen, empty without any."""
        return "trained" if self.trainable else "frozen" if self.parameters else ""


class Memory(Frozen):
    """The memory of a process that trains a model.

    Attributes:
        weights_bytes: size of all weights, trained and frozen.
        gradients_bytes: size of one gradient of all trainable parameters.
        optimizer_bytes: size of the variables of the optimizers.
        fixed_bytes, bytes_per_example: a line fitted to the peaks of training steps with several
            batches. The fixed part includes TensorFlow and all of the above.
        measured: measured peak of a training step, by batch.
    """

    weights_bytes: Count
    gradients_bytes: Count
    optimizer_bytes: Count
    fixed_bytes: Count
    bytes_per_example: Count
    measured: dict[int, Count] = Field(min_length=1)

    def peak_bytes(self, batch: int) -> int:
        """Return the estimated peak memory of a process that trains batches of `batch` examples."""
        return self.fixed_bytes + batch * self.bytes_per_example


class Architecture(Frozen):
    """The architecture of a model.

    Attributes:
        model: name of the model.
        about: paragraphs of the docstring of the model's file.
        input_shape: shape of one prepared example; empty if it has several parts or varying size.
        layers: the layers, in an order in which they can be computed.
        trainable, total: number of trainable parameters, and of all parameters.
        payload_bytes: size of a gradient, one float32 per trainable parameter.
        flops_per_example: operations of the forward pass; a multiply-add counts as 2.
        training_flops_per_example: operations of forward and backward pass.
        stages: the most stages into which the model can be split.
        memory: memory of training; None if it was not measured.
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
    memory: Memory | None = None

    @property
    def flops_per_payload_byte(self) -> float:
        """Operations of training one example, per byte that a worker exchanges in a step.

        A batch of *b* examples has *b* times as many operations for the same bytes.
        """
        return self.training_flops_per_example / self.payload_bytes
