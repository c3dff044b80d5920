"""Floating-point operations of a traced graph, counted operation by operation from its shapes.

This counts what has no closed form in `flops`: recurrent and custom layers, subclassed models and
custom training steps. It counts as `flops` does: a multiply-add is 2, matrix products and
convolutions are exact, of everything else each number that is computed is one operation. Loops
count once for every turn. Imports TensorFlow, but computes nothing.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import tensorflow as tf

from nodewise.models.contents import examples_in
from nodewise.models.flops import BATCH_NORM, SOFTMAX

UNKNOWN_LOOP = "a loop of unknown length (one turn is counted)"
UNKNOWN_ROWS = "rows of unknown length (one value of each is counted)"
# how a call fails of a model that takes something else than x, or has none
_NOT_CALLED = (
    *(NotImplementedError, TypeError, ValueError, LookupError, AttributeError),
    tf.errors.OpError,
)


@dataclass
class Count:
    """The operations of a graph, and the kinds of operations that it has and that none counts."""

    flops: float = 0
    uncounted: set[str] = field(default_factory=set)

    def add(self, other: "Count", times: float = 1) -> None:
        """Add `times` another count."""
        self.flops += times * other.flops
        self.uncounted |= other.uncounted


def count(graph: tf.Graph) -> Count:
    """Return the floating-point operations of one run of a function's graph, shapes being known.

    What leads to no output and changes nothing is left out, as TensorFlow leaves it out: such as
    the gradients of frozen weights.
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
) -> tuple[int, int, set[str]]:
    """Count what a layer computes for one example, forward and in training.

    Args:
        layer: a built layer or operation of Keras.
        arguments: of its call in a graph of layers, with `args` and `kwargs`.
        trained: its weights are trained, not frozen.
        reached: a trained layer lies before it, so that the gradient must pass through.

    Returns:
        The operations of the forward pass, those of a training step without the optimizer's, and
        the kinds of operations that are not counted.
    """
    given = {id(one): one for one in keras.tree.flatten((arguments.args, arguments.kwargs))}
    symbols = [one for one in given.values() if isinstance(one, keras.KerasTensor)]
    specs = [tf.TensorSpec([size or 1 for size in one.shape], one.dtype) for one in symbols]

    def call(tensors: tuple[tf.Tensor, ...]) -> Any:  # noqa: ANN401
        by_symbol = {id(one): tensor for one, tensor in zip(symbols, tensors, strict=True)}
        args, kwargs = keras.tree.map_structure(
            lambda one: by_symbol.get(id(one), one), (arguments.args, arguments.kwargs)
        )
        return layer(*args, **kwargs)

    def train(*tensors: tf.Tensor) -> Any:  # noqa: ANN401
        weights = list(getattr(layer, "trainable_weights", [])) if trained else []
        watched = [one for one in tensors if one.dtype.is_floating] if reached else []
        with tf.GradientTape() as tape:
            tape.watch(watched)
            outputs = tf.nest.flatten(call(tensors))
        return outputs, tape.gradient(outputs, [*(one.value for one in weights), *watched])

    forward = _traced(lambda *tensors: call(tensors), specs)
    training = _traced(train, specs) if trained or reached else forward
    uncounted = forward.uncounted | training.uncounted
    return round(forward.flops), round(training.flops), uncounted


def count_model(model: keras.Model, batches: Sequence[Any]) -> tuple[int, int, set[str]]:
    """Count what a whole compiled model computes for one example, forward and in training.

    What a step computes whatever its batch, such as updates of weights, is left out.

    Args:
        model: with its variables made, so that it can be called.
        batches: specs of two batches of different sizes, as `train_step` takes them.

    Returns:
        As `count_call`; that of the forward pass is 0 if the model cannot be called with x, as a
        GAN cannot.
    """
    examples = [examples_in(batch) for batch in batches]
    inputs = [keras.utils.unpack_x_y_sample_weight(batch)[0] for batch in batches]
    ragged = any(isinstance(one, tf.RaggedTensorSpec) for one in tf.nest.flatten(batches))
    left_out = {UNKNOWN_ROWS} if ragged else set()

    def each(step: Callable[[Any], Any], specs: Sequence[Any]) -> tuple[int, set[str]]:
        few, many = (_traced(step, [spec]) for spec in specs)
        flops = (many.flops - few.flops) / (examples[1] - examples[0])
        return round(flops), few.uncounted

    training, uncounted = each(model.train_step, batches)
    try:
        forward, more = each(lambda x: model(x, training=False), inputs)
    except _NOT_CALLED:
        return 0, training, left_out | uncounted
    return forward, training, left_out | uncounted | more


def _traced(function: Callable[..., Any], specs: Sequence[Any]) -> Count:
    # AutoGraph would leave a file per function: workers do not exit, they are ended
    return count(tf.function(function, autograph=False).get_concrete_function(*specs).graph)


def _count_one(operation: tf.Operation) -> Count:
    inner = Count()
    for body in bodies(operation):
        inner.add(count(body))
    turns = turns_of(operation)
    if turns is None:
        return Count(inner.flops, inner.uncounted | {UNKNOWN_LOOP})
    found = Count()
    found.add(inner, turns)
    kind = operation.type
    if kind in _PRODUCTS:
        found.flops += 2 * _PRODUCTS[kind](operation)
    elif _computes(operation):
        if kind in _EACH_INPUT:
            found.flops += _EACH_INPUT[kind] * _size(operation.inputs[0])
        elif kind in _POOLS:
            pooled = operation.inputs[-1] if kind.endswith("Grad") else operation.outputs[0]
            found.flops += math.prod(operation.get_attr("ksize")) * _size(pooled)
        elif kind in _EACH_OUTPUT:
            found.flops += _EACH_OUTPUT[kind] * _size(operation.outputs[0])
        elif kind not in _FREE:
            found.uncounted.add(kind)
    return found


def bodies(operation: tf.Operation) -> Iterator[tf.Graph]:
    """Yield the graphs that an operation runs: a function's, a loop's body, one branch of several.

    A loop's condition only compares numbers of turns.
    """
    for name in ("body", "f", "then_branch"):
        if name in operation.node_def.attr and operation.node_def.attr[name].HasField("func"):
            # private: a graph's public text has no shapes that belong to a function's inputs
            called = operation.graph._get_function(operation.node_def.attr[name].func.name)
            if called is not None:
                yield called.graph


def turns_of(operation: tf.Operation) -> int | None:
    """Return how often an operation runs its bodies; None for a loop whose length is not known."""
    if operation.type not in _LOOPS:
        return 1
    # the first inputs of a loop are its counter and the most turns that it may take
    most = operation.inputs[1]
    while most.op.type in ("Identity", "Max", "Cast"):  # of the number of time steps
        most = most.op.inputs[0]
    turns = tf.get_static_value(most)
    if turns is not None:
        return int(turns) if turns >= 0 else None
    # a gradient takes as many turns as the loop that it is of
    return turns_of(most.op) if most.op.type in _LOOPS else None


def _computes(operation: tf.Operation) -> bool:
    return any(one.dtype.is_floating or one.dtype.is_complex for one in operation.outputs)


def _size(tensor: tf.Tensor) -> int:
    """Return how many numbers a tensor has; a length that is not known counts as one."""
    if tensor.shape.rank is None:
        return 1
    return math.prod(1 if one is None else one for one in tensor.shape)


def _matmul(operation: tf.Operation) -> int:
    transposed = operation.get_attr("transpose_a")
    return _size(operation.outputs[0]) * (operation.inputs[0].shape[0 if transposed else 1] or 1)


def _batch_matmul(operation: tf.Operation) -> int:
    transposed = operation.get_attr("adj_x")
    return _size(operation.outputs[0]) * (operation.inputs[0].shape[-2 if transposed else -1] or 1)


def _einsum(operation: tf.Operation) -> int:
    indices = operation.get_attr("equation").decode().partition("->")[0].split(",")
    if "." in "".join(indices):
        return _size(operation.outputs[0])
    sizes: dict[str, int] = {}
    for letters, tensor in zip(indices, operation.inputs, strict=True):
        sizes |= {letter: one or 1 for letter, one in zip(letters, tensor.shape, strict=True)}
    return math.prod(sizes.values())


def _each_place(places: int, kernel: int) -> Callable[[tf.Operation], int]:
    """Return what counts a convolution; where its larger pictures or gradients, and weights are."""

    def products(operation: tf.Operation) -> int:
        tensors = [*operation.inputs, operation.outputs[0]]
        shape = tensors[kernel].shape
        if operation.type.startswith("Depthwise"):
            shape = shape[:3]
        each: int = math.prod(shape[:-1])
        return _size(tensors[places]) * each

    return products


_LOOPS = ("While", "StatelessWhile")
_PRODUCTS: dict[str, Callable[[Any], int]] = {
    "MatMul": _matmul,
    **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _batch_matmul),
    "Einsum": _einsum,
    # inputs: pictures, weights; then of the gradients: sizes, weights or pictures, gradients
    **dict.fromkeys(("Conv2D", "Conv3D", "DepthwiseConv2dNative"), _each_place(-1, 1)),
    **dict.fromkeys(
        (
            "Conv2DBackpropInput",
            "Conv3DBackpropInputV2",
            "DepthwiseConv2dNativeBackpropInput",
        ),
        _each_place(2, 1),
    ),
    **dict.fromkeys(
        (
            "Conv2DBackpropFilter",
            "Conv3DBackpropFilterV2",
            "DepthwiseConv2dNativeBackpropFilter",
        ),
        _each_place(2, -1),
    ),
}
_POOLS = {"MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D"} | {
    f"{kind}Grad" for kind in ("MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D")
}
_EACH_INPUT: dict[str, int] = {
    **dict.fromkeys(("Sum", "Mean", "Max", "Min", "Prod", "Cumsum", "Cumprod", "EuclideanNorm"), 1),
    **dict.fromkeys(("BiasAddGrad", "SegmentSum", "UnsortedSegmentSum", "L2Loss"), 1),
    **dict.fromkeys(("SegmentMean", "SparseSegmentSum", "SparseSegmentMean"), 1),
    "SparseSoftmaxCrossEntropyWithLogits": SOFTMAX,
    "SoftmaxCrossEntropyWithLogits": SOFTMAX,
}
_EACH_OUTPUT: dict[str, int] = {
    **dict.fromkeys(("Softmax", "LogSoftmax"), SOFTMAX),
    **dict.fromkeys(("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"), BATCH_NORM),
    **dict.fromkeys(("FusedBatchNormGrad", "FusedBatchNormGradV3"), 2 * BATCH_NORM),
    **dict.fromkeys(
        (
            *("Add", "AddV2", "Sub", "Mul", "Div", "RealDiv", "DivNoNan", "FloorDiv", "FloorMod"),
            *("BiasAdd", "Maximum", "Minimum", "Pow", "SquaredDifference", "Xlogy", "Mod"),
            *("MulNoNan", "Atan2", "Neg", "Abs", "Sign", "Square", "Sqrt", "Rsqrt", "Exp"),
            *("Expm1", "Log", "Log1p", "Reciprocal", "Inv", "Sin", "Cos", "Tan", "Tanh"),
            *("Sigmoid", "Erf", "Erfc", "Relu", "Relu6", "LeakyRelu", "Elu", "Selu", "Softplus"),
            *("Softsign", "Floor", "Ceil", "Round", "Rint", "Lgamma", "Digamma", "Atan", "Asin"),
            *("Acos", "Sinh", "Cosh", "Asinh", "Acosh", "Atanh", "ReluGrad", "Relu6Grad"),
            *("LeakyReluGrad", "EluGrad", "SeluGrad", "SoftplusGrad", "SoftsignGrad"),
            *("SigmoidGrad", "TanhGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad"),
            *("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBilinearGrad", "ClipByValue"),
            *("TensorScatterAdd", "ScatterNd", "Bincount", "DenseBincount", "NextAfter"),
        ),
        1,
    ),
    "AddN": 1,
}
# What moves, chooses, reads or makes numbers, and computes none.
_FREE = frozenset(
    (
        *("Const", "Placeholder", "PlaceholderWithDefault", "Identity", "IdentityN", "Snapshot"),
        *("StopGradient", "PreventGradient", "CheckNumerics", "EnsureShape", "Cast", "Bitcast"),
        *("ReadVariableOp", "VariableV2", "VarHandleOp", "ResourceGather", "ResourceGatherNd"),
        *("Gather", "GatherV2", "GatherNd", "Reshape", "Squeeze", "ExpandDims", "Transpose"),
        *("ConjugateTranspose", "Pack", "Unpack", "Concat", "ConcatV2", "Split", "SplitV"),
        *("Slice", "StridedSlice", "StridedSliceGrad", "Pad", "PadV2", "MirrorPad"),
        *("MirrorPadGrad", "Tile", "BroadcastTo", "Fill", "ZerosLike", "OnesLike", "Select"),
        *("SelectV2", "Where", "Reverse", "ReverseV2", "ReverseSequence", "Roll", "Range"),
        *("LinSpace", "MatrixBandPart", "MatrixDiag", "MatrixDiagV3", "MatrixDiagPartV3"),
        *("OneHot", "DepthToSpace", "SpaceToDepth", "SpaceToBatchND", "BatchToSpaceND"),
        *("DynamicPartition", "DynamicStitch", "ParallelDynamicStitch", "InvertPermutation"),
        *("RandomUniform", "RandomStandardNormal", "TruncatedNormal", "StatelessRandomUniform"),
        *("StatelessRandomUniformV2", "StatelessRandomNormal", "StatelessRandomNormalV2"),
        *("StatelessTruncatedNormal", "StatelessTruncatedNormalV2", "StatelessMultinomial"),
        *("TensorListGetItem", "TensorListPopBack", "TensorListStack", "TensorListGather"),
        *("TensorListConcatV2", "TensorArrayV3", "TensorArrayReadV3", "TensorArrayGatherV3"),
        *("RaggedTensorToTensor", "RaggedTensorToVariant", "RaggedTensorFromVariant"),
        *("ShallowCopy", "DeepCopy", "TopKV2", "ArgMax", "ArgMin", "Timestamp", "EagerPyFunc"),
        *("LookupTableFindV2", "SparseToDense", "Unique", "UniqueV2", "Merge", "Switch"),
        *("PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile"),
        *("If", "StatelessIf", "Case", "StatelessCase", "SymbolicGradient", "RemoteCall"),
        *("AccumulateNV2", "NoOp", "StringToNumber", "TensorScatterUpdate"),
    )
)
