"""Group the layers of a model into the blocks that its diagram shows.

This works for any architecture. The list of layers is cut wherever all later layers depend on a
single tensor. The layers between two cuts are a block: either one layer, or parallel branches with
the layer that joins them. Consecutive blocks that look the same are folded into a repeated group.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nodewise.results.model_description import Layer

# Kinds of layers that are drawn in the box of the layer before them.
_LIGHT = {
    *("Activation", "BatchNormalization", "Dropout", "Flatten", "LayerNormalization", "Permute"),
    *("ReLU", "Reshape", "Softmax"),
}

Block = tuple[Layer, ...]


@dataclass
class Box:
    """The content of one box of the diagram.

    Attributes:
        lines: the text of the box, one layer per line; a light layer shares the line of the layer
            that it follows.
        skip: whether a skip connection adds the box's input, unchanged, to its result.
        layers: all layers in the box.
    """

    lines: list[str]
    skip: bool
    layers: list[Layer]


@dataclass
class Group:
    """A sequence of boxes that is repeated `times` times.

    `boxes` are those of one repetition, `layers` are the layers of all repetitions.
    """

    times: int
    boxes: list[Box] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)


def grouped(layers: Sequence[Layer]) -> list[Group]:
    """Group the layers of a model into boxes and fold repeated ones.

    Consecutive boxes that are not repeated are all in one group, with `times` 1.
    """
    blocks = _cut(_on_the_way(layers))
    groups: list[Group] = []
    start = 0
    while start < len(blocks):
        length, times = _repeated([_signature(block) for block in blocks[start:]])
        if times > 1 or not groups or groups[-1].times > 1:
            groups.append(Group(times))
        for block in blocks[start : start + length]:
            _add(groups[-1].boxes, block)
        covered = blocks[start : start + length * times]
        groups[-1].layers += [layer for block in covered for layer in block]
        start += length * times
    return [group for group in groups if group.boxes]


def _on_the_way(layers: Sequence[Layer]) -> list[Layer]:
    """Return the layers that the last one depends on, without those that only compute a mask."""
    wanted = {layers[-1].name}
    for layer in reversed(layers):
        if layer.name in wanted:
            wanted.update(layer.inputs)
    return [layer for layer in layers if layer.name in wanted]


def _cut(layers: Sequence[Layer]) -> list[Block]:
    # a block ends at each layer whose output is all that later layers use
    place = {layer.name: index for index, layer in enumerate(layers)}
    reach: dict[str, int] = {}  # layer -> index of the last layer that uses its output
    for layer in layers:
        reach |= dict.fromkeys(layer.inputs, place[layer.name])
    blocks, begin, furthest = [], 0, 0
    for index, layer in enumerate(layers):
        if furthest <= index:  # no output of an earlier layer is used after this layer
            blocks.append(tuple(layers[begin : index + 1]))
            begin = index + 1
        furthest = max(furthest, reach.get(layer.name, 0))
    return blocks


def _signature(block: Block) -> tuple[tuple[str, ...], ...]:
    """Return a key that is equal for blocks that look the same.

    Output shapes are not in it, so widths may change from one block to the next.
    """
    return tuple((layer.kind, layer.detail, layer.state) for layer in block)


def _repeated(signatures: Sequence[tuple[tuple[str, ...], ...]]) -> tuple[int, int]:
    """Find a sequence of blocks, beginning with the first, that is repeated.

    The repetition that covers most blocks is chosen; among equals, the shortest sequence. A
    sequence that contains branches must begin with them, as this is where the designers of
    networks let a group begin.

    Returns:
        The length of the sequence in blocks, and how often it occurs in a row: (1, 1) if nothing is
        repeated.
    """
    best = (1, 1)
    for length in range(1, len(signatures) // 2 + 1):
        body = signatures[:length]
        if len(body[0]) == 1 and any(len(block) > 1 for block in body):
            continue
        times = 1
        while signatures[times * length : (times + 1) * length] == body:
            times += 1
        if times > 1 and times * length > best[0] * best[1]:
            best = (length, times)
    return best


def _add(boxes: list[Box], block: Block) -> None:
    """Append `block` as a box; a light layer is added to the last box, a hidden one left out."""
    if len(block) > 1:
        boxes.append(_joined(block))
    elif boxes and block[0].kind in _LIGHT:
        boxes[-1].lines[-1] += f" + {_words(block[0])}"
        boxes[-1].layers.append(block[0])
    elif not _hidden(block[0]):
        boxes.append(Box([_words(block[0])], skip=False, layers=[*block]))


def _joined(block: Block) -> Box:
    """Return the box of a block with branches.

    Its lines are those of the longest branch, then those of the other branches, then the layer that
    joins them.
    """
    *inside, join = block
    by_name = {layer.name: layer for layer in inside}
    taken: set[str] = set()
    branches = []
    for source in join.inputs:
        branch = _before(source, by_name) - taken
        taken |= branch
        branches.append([layer for layer in inside if layer.name in branch])
    written = sorted((_lines(branch) for branch in branches), key=len, reverse=True)
    lines = [*written[0], *(f"beside: {line}" for branch in written[1:] for line in branch)]
    skip = any(source not in by_name for source in join.inputs)
    joined = f"{_words(join)}, with its input" if skip else _words(join)
    return Box([*lines, joined], skip=skip, layers=[*block])


def _before(name: str, by_name: dict[str, Layer]) -> set[str]:
    """Return `name` and all layers that it depends on, restricted to those in `by_name`."""
    found: set[str] = set()
    ahead = [name]
    while ahead:
        one = ahead.pop()
        if one in by_name and one not in found:
            found.add(one)
            ahead += by_name[one].inputs
    return found


def _lines(branch: Sequence[Layer]) -> list[str]:
    lines: list[str] = []
    for layer in branch:
        if _hidden(layer):
            continue
        if lines and layer.kind in _LIGHT:
            lines[-1] += f" + {_words(layer)}"
        else:
            lines.append(_words(layer))
    return lines


def _hidden(layer: Layer) -> bool:
    """Return whether a layer is left out: it only pads, casts, selects or passes on its input."""
    computes = layer.parameters or layer.flops
    return not computes and layer.kind not in _LIGHT and layer.kind != "Concatenate"


_SHORT = {"BatchNormalization": "BN", "LayerNormalization": "LN", "MultiHeadAttention": "Attention"}


def _words(layer: Layer) -> str:
    if layer.kind == "Activation":
        return layer.detail
    kind = _SHORT.get(layer.kind, layer.kind)
    return f"{kind} {layer.detail}" if layer.detail else kind
