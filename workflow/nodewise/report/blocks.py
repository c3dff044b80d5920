"""Layers -> the blocks that a reader sees: what runs side by side is one, what repeats is folded.

Nothing here knows an architecture by name. The layers are cut wherever everything that follows
depends on one tensor alone; what lies between two cuts is a block: one layer, or branches and the
layer that joins them. Runs of blocks that look the same are folded into a repeated group.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from nodewise.results.model_description import Layer

# Belong to the layer before them.
_LIGHT = {
    *("Activation", "BatchNormalization", "Dropout", "Flatten", "LayerNormalization", "Permute"),
    *("ReLU", "Reshape", "Softmax"),
}

Block = tuple[Layer, ...]


@dataclass
class Box:
    """What is drawn as one box.

    Attributes:
        lines: its layers in words; light layers stand behind the one that they follow.
        skip: its input is joined, unchanged, to what it computes.
        layers: all of them.
    """

    lines: list[str]
    skip: bool
    layers: list[Layer]


@dataclass
class Group:
    """Boxes that run one after the other, `times` in a row; `layers` are those of all times."""

    times: int
    boxes: list[Box] = field(default_factory=list)
    layers: list[Layer] = field(default_factory=list)


def grouped(layers: Sequence[Layer]) -> list[Group]:
    """Return the blocks of a model, folded; groups of one time are as long as can be."""
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
    """Return the layers that the last one depends on, without what only computes a mask."""
    wanted = {layers[-1].name}
    for layer in reversed(layers):
        if layer.name in wanted:
            wanted.update(layer.inputs)
    return [layer for layer in layers if layer.name in wanted]


def _cut(layers: Sequence[Layer]) -> list[Block]:
    place = {layer.name: index for index, layer in enumerate(layers)}
    reach: dict[str, int] = {}  # the last layer that uses a layer's output
    for layer in layers:
        reach |= dict.fromkeys(layer.inputs, place[layer.name])
    blocks, begin, furthest = [], 0, 0
    for index, layer in enumerate(layers):
        if furthest <= index:  # nothing before this layer is used after it
            blocks.append(tuple(layers[begin : index + 1]))
            begin = index + 1
        furthest = max(furthest, reach.get(layer.name, 0))
    return blocks


def _signature(block: Block) -> tuple[tuple[str, ...], ...]:
    """Return what makes two blocks look the same. Widths may grow from one to the next."""
    return tuple((layer.kind, layer.detail, layer.state) for layer in block)


def _repeated(signatures: Sequence[tuple[tuple[str, ...], ...]]) -> tuple[int, int]:
    """Return how many blocks from the first one on are repeated, and how often they are there.

    Of all ways the one that covers most; of those the shortest. Where branches are repeated they
    come first: a group then begins where its designers say that it does.
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
    """Append `block` as a box, or to the last box if it is a light layer."""
    if len(block) > 1:
        boxes.append(_joined(block))
    elif boxes and block[0].kind in _LIGHT:
        boxes[-1].lines[-1] += f" + {_words(block[0])}"
        boxes[-1].layers.append(block[0])
    elif not _hidden(block[0]):
        boxes.append(Box([_words(block[0])], skip=False, layers=[*block]))


def _joined(block: Block) -> Box:
    """Return the box of branches: the longest first, what runs beside it after, the join last."""
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
    """Return `name` and all that it depends on, as far as it is in `by_name`."""
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
    """Return whether a layer only pads, casts, picks or hands on: nothing that a reader misses."""
    computes = layer.parameters or layer.flops
    return not computes and layer.kind not in _LIGHT and layer.kind != "Concatenate"


_SHORT = {"BatchNormalization": "BN", "LayerNormalization": "LN", "MultiHeadAttention": "Attention"}


def _words(layer: Layer) -> str:
    if layer.kind == "Activation":
        return layer.detail
    kind = _SHORT.get(layer.kind, layer.kind)
    return f"{kind} {layer.detail}" if layer.detail else kind
