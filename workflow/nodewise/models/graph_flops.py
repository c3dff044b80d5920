"""Count the floating-point operations of a traced graph, operation by operation, from its shapes.

A multiply-add is 2 operations. Matrix products and convolutions are counted exactly; in everything
else each computed number is one operation. Loops count once per iteration. Imports TensorFlow, but
computes nothing.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from nodewise.models.contents import examples_in, traced

SOFTMAX = 5  # maximum, difference, exponential, sum, quotient
BATCH_NORM = 2  # scale and offset: a channel's four parameters can be combined into these two
UNKNOWN_LOOP = "a loop of unknown length (one turn is counted)"
UNKNOWN_ROWS = "rows of unknown length (one value of each is counted)"
# errors of calling a model that takes something else than x, or that has no call()
_NOT_CALLED = (NotImplementedError, TypeError, ValueError, LookupError, AttributeError)


@dataclass
class Count:
    """The number of operations in a graph, and what is counted once only."""

    flops: float = 0
    uncounted: set[str] = field(default_factory=set)

    def add(self, other: "Count", times: float = 1) -> None:
        """Add `times` times another count."""
        self.flops += times * other.flops
        self.uncounted |= other.uncounted


def count(graph: tf.Graph) -> Count:
    """Return the floating-point operations of one run of a function's graph with known shapes.

    Operations that lead to no output and have no side effect are not counted, because TensorFlow
    prunes them. Examples are the gradients of frozen weights.
    """
    total = Count()
    waiting = [one.op for one in graph.outputs] + list(graph.control_outputs)
    seen: set[int] = set()
    while waiting:
        operation = waiting.pop()
        if id(operation) not in seen:
            seen.add(id(operation))
            waiting += [one.op for one in operation.inputs] + list(operation.control_inputs)
            total.add(_count_one(operation))
    return total


def count_call(
    layer: Callable[..., Any],
    arguments: Any,  # noqa: ANN401
    *,
    trained: bool,
    reached: bool,
) -> tuple[Count, Count]:
    """Count the operations of a layer for one example, forward and in training.

    Args:
        layer: a built layer or operation of Keras.
        arguments: the arguments of its call in a graph of layers, with `args` and `kwargs`.
        trained: whether its weights are trained, not frozen.
        reached: whether a trained layer lies before it, so that the gradient must pass through.

    Returns:
        The operations of the forward pass, and those of a training step without the optimizer's.
    """
    given = {id(one): one for one in keras.tree.flatten((arguments.args, arguments.kwargs))}
    symbols = [one for one in given.values() if isinstance(one, keras.KerasTensor)]
    specs = [tf.TensorSpec([size or 1 for size in one.shape], one.dtype) for one in symbols]

    def call(*tensors: tf.Tensor) -> Any:  # noqa: ANN401
        by_symbol = {id(one): tensor for one, tensor in zip(symbols, tensors, strict=True)}
        args, kwargs = keras.tree.map_structure(
            lambda one: by_symbol.get(id(one), one), (arguments.args, arguments.kwargs)
        )
        return layer(*args, **kwargs)

    weights = list(getattr(layer, "trainable_weights", [])) if trained else []
    return count(traced(call, *specs).graph), count_training(call, specs, weights, reached=reached)


def count_training(
    call: Callable[..., Any],
    specs: Sequence[tf.TensorSpec],
    weights: Sequence[keras.Variable],
    *,
    reached: bool,
) -> Count:
    """Count the operations of the forward and backward pass of a function for one example.

    Args:
        call: the function.
        specs: the specs of its arguments.
        weights: weights that are trained.
        reached: whether the gradient must pass on to the arguments.
    """

    def train(*tensors: tf.Tensor) -> Any:  # noqa: ANN401
        watched = [one for one in tensors if one.dtype.is_floating] if reached else []
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = tf.nest.flatten(call(*tensors))
        return outputs, tape.gradient(outputs, [*(one.value for one in weights), *watched])

    return count(traced(train if weights or reached else call, *specs).graph)


def count_model(model: keras.Model, batches: Sequence[Any]) -> tuple[Count, Count]:
    """Count the operations of a whole compiled model for one example, forward and in training.

    Operations whose number does not depend on the batch, such as updates of weights, are not
    counted.

    Args:
        model: a model whose variables are created, so that it can be called.
        batches: the specs of two batches of different sizes, as `train_step` takes them.

    Returns:
        The same as `count_call`. The forward pass is 0 if the model cannot be called with x, like a
        GAN.
    """
    examples = [examples_in(batch) for batch in batches]
    unpack = keras.utils.unpack_x_y_sample_weight
    ragged = any(isinstance(one, tf.RaggedTensorSpec) for one in tf.nest.flatten(batches))
    left_out = {UNKNOWN_ROWS} if ragged else set()

    def each(step: Callable[[Any], Any]) -> Count:
        few, many = (count(traced(step, batch).graph) for batch in batches)
        flops = (many.flops - few.flops) / (examples[1] - examples[0])
        return Count(flops, few.uncounted | left_out)

    training = each(model.train_step)
    try:
        return each(lambda batch: model(unpack(batch)[0], training=False)), training
    except (tf.errors.OpError, *_NOT_CALLED):
        return Count(), training


def _count_one(operation: tf.Operation) -> Count:
    found, turns = Count(), _turns(operation)
    for body in bodies(operation):
        found.add(count(body), 1 if turns is None else turns)
    if turns is None:
        found.uncounted.add(UNKNOWN_LOOP)
    kind, output = operation.type, next(iter(operation.outputs), None)
    if kind.startswith(_FREE) or output is None:
        return found
    products = _products(operation)
    if products is not None:
        found.flops += 2 * products
    elif output.dtype.is_floating or output.dtype.is_complex:
        if kind.removesuffix("Grad") in _POOLS:
            pooled = operation.inputs[-1] if kind.endswith("Grad") else output
            found.flops += math.prod(operation.get_attr("ksize")) * _size(pooled)
        elif kind in _EACH_INPUT:
            found.flops += _EACH_INPUT[kind] * _size(operation.inputs[0])
        else:
            found.flops += _size(output)
    return found


def bodies(operation: tf.Operation) -> Iterator[tf.Graph]:
    """Yield the graphs that an operation runs: a function, a loop's body, one of several branches.

    A loop's condition is left out, because it only compares iteration numbers.
    """
    for name in ("body", "f", "then_branch"):
        if name in operation.node_def.attr and operation.node_def.attr[name].HasField("func"):
            called = operation.graph._get_function(operation.node_def.attr[name].func.name)  # noqa: SLF001 (the public text of a function names no tensors)
            if called is not None:
                yield called.graph


def _turns(operation: tf.Operation) -> int | None:
    """Return how often an operation runs its bodies; None for a loop of unknown length."""
    if operation.type not in _LOOPS:
        return 1
    # the first two inputs of a loop are its counter and its maximum number of iterations
    most = operation.inputs[1]
    while most.op.type in ("Identity", "Max", "Cast"):  # skip conversions of the number of steps
        most = most.op.inputs[0]
    turns = tf.get_static_value(most)
    if turns is not None:
        return int(turns) if turns >= 0 else None
    # the gradient of a loop takes as many iterations as the loop
    return _turns(most.op) if most.op.type in _LOOPS else None


def _size(tensor: tf.Tensor) -> int:
    """Return the number of entries of a tensor; an unknown length counts as 1."""
    if tensor.shape.rank is None:
        return 1
    return math.prod(1 if one is None else one for one in tensor.shape)


def _products(operation: tf.Operation) -> int | None:
    """Return the multiply-adds of a matrix product or convolution; None for other operations."""
    kind, inputs, output = operation.type, operation.inputs, operation.outputs[0]
    if kind == "MatMul":
        return _size(output) * (inputs[0].shape[0 if operation.get_attr("transpose_a") else 1] or 1)
    if kind.startswith("BatchMatMul"):
        return _size(output) * (inputs[0].shape[-2 if operation.get_attr("adj_x") else -1] or 1)
    if kind == "Einsum":
        indices = operation.get_attr("equation").decode().partition("->")[0].split(",")
        sizes: dict[str, int] = {}
        for letters, tensor in zip(indices, inputs, strict=True):
            if "." in letters:
                return _size(output)
            sizes |= {letter: one or 1 for letter, one in zip(letters, tensor.shape, strict=True)}
        return math.prod(sizes.values())
    if kind not in _CONVOLUTIONS:
        return None
    tensors = [*inputs, output]
    places, kernel = (tensors[index] for index in _CONVOLUTIONS[kind])
    shape = kernel.shape[:3] if kind.startswith("Depthwise") else kernel.shape
    return int(_size(places) * math.prod(shape[:-1]))


_LOOPS = ("While", "StatelessWhile")
# Where the output of a convolution (or its gradient) and the weights (or their gradient) are among
# the inputs, followed by the first output. The inputs are (images, weights); of the gradients
# (sizes, weights, gradient of the output) and (images, sizes, gradient of the output).
_CONVOLUTIONS = {
    **dict.fromkeys(("Conv2D", "Conv3D", "DepthwiseConv2dNative"), (-1, 1)),
    "Conv2DBackpropInput": (2, 1),
    "Conv3DBackpropInputV2": (2, 1),
    "DepthwiseConv2dNativeBackpropInput": (2, 1),
    "Conv2DBackpropFilter": (2, -1),
    "Conv3DBackpropFilterV2": (2, -1),
    "DepthwiseConv2dNativeBackpropFilter": (2, -1),
}
_POOLS = ("MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D")
# operations per number of the first input; 1 per number of the output for all other operations
_EACH_INPUT = {
    **dict.fromkeys(("Sum", "Mean", "Max", "Min", "Prod", "Cumsum", "Cumprod", "EuclideanNorm"), 1),
    **dict.fromkeys(("BiasAddGrad", "SegmentSum", "UnsortedSegmentSum", "L2Loss"), 1),
    **dict.fromkeys(("SegmentMean", "SparseSegmentSum", "SparseSegmentMean"), 1),
    **dict.fromkeys(("Softmax", "LogSoftmax"), SOFTMAX),
    "SparseSoftmaxCrossEntropyWithLogits": SOFTMAX,
    "SoftmaxCrossEntropyWithLogits": SOFTMAX,
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), BATCH_NORM),
    **dict.fromkeys(("FusedBatchNormGrad", "FusedBatchNormGradV3"), 2 * BATCH_NORM),
}
# What the types of operations begin with that move, select, read or create numbers, but compute
# nothing.
_FREE = (
    *("Accumulate", "ArgM", "BatchToSpace", "Bitcast", "Broadcast", "Case", "Cast"),
    *("CheckNumerics", "Concat", "ConjugateTranspose", "Const", "DeepCopy", "DepthToSpace"),
    *("Dynamic", "EagerPyFunc", "EnsureShape", "ExpandDims", "Fill", "Gather", "Identity", "If"),
    *("InvertPermutation", "LinSpace", "LookupTable", "MatrixBandPart", "MatrixDiag", "Merge"),
    *("MirrorPad", "OneHot", "OnesLike", "Pack", "Pad", "ParallelDynamic", "PartitionedCall"),
    *("Placeholder", "PreventGradient", "Ragged", "Random", "Range", "ReadVariable", "RemoteCall"),
    *("Reshape", "ResourceGather", "Reverse", "Roll", "Select", "ShallowCopy", "Slice"),
    *("Snapshot", "SpaceTo", "SparseToDense", "Split", "Squeeze", "StatefulPartitionedCall"),
    *("Stateless", "StopGradient", "StridedSlice", "StringToNumber", "Switch", "SymbolicGradient"),
    *("TensorArray", "TensorList", "TensorScatterUpdate", "Tile", "Timestamp", "TopK", "Transpose"),
    *("TruncatedNormal", "Unique", "Unpack", "VariableV2", "Where", "While", "ZerosLike"),
)
