"""Lay out the diagram of a model: the places of its boxes, texts and arrows.

The diagram is a column of boxes from the input down to the logits, as wide as a phone. All lengths
are in units of the SVG's viewBox. The template writes the SVG elements; colours and fonts come from
the page's style sheet.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from markupsafe import Markup

from nodewise.core.units import write_number
from nodewise.report.blocks import Box, Group, grouped
from nodewise.results.model_description import Architecture, Layer

WIDTH = 340
_LEFT, _RIGHT = 14, 318  # edges of a box; skip connections pass on its right
_LINE, _PAD, _GAP = 16, 9, 16
_FRAME = 8  # margin around a repeated group
_STYLES = {
    "trained": Markup("nw-net__box--trained"),
    "frozen": Markup("nw-net__box--frozen"),
    "": Markup("nw-net__box--plain"),
}


@dataclass(frozen=True)
class Text:
    """One line of text; `small` lines state parameters and shapes."""

    x: int
    y: int
    words: str
    small: bool = False


@dataclass(frozen=True)
class Rectangle:
    """A box or a frame; `style` is a class of the style sheet."""

    x: int
    y: int
    width: int
    height: int
    style: Markup


@dataclass
class Drawing:
    """The elements of a diagram, and its description in words."""

    words: str
    width: int = WIDTH
    height: int = 0
    rectangles: list[Rectangle] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    arrows: list[tuple[int, int]] = field(default_factory=list)  # down the middle, from y to y
    skips: list[tuple[int, int]] = field(default_factory=list)  # to the right of a box, from y to y


def draw(architecture: Architecture) -> Drawing:
    """Lay out the diagram of a model."""
    groups = grouped(architecture.layers)
    drawing = Drawing(_in_words(architecture, groups))
    shape = f"Input {input_in_words(architecture)}"
    y = _PAD + _LINE
    drawing.texts.append(Text(_LEFT, y - 4, shape, small=True))
    for group in groups:
        y = _draw_once(drawing, group, y) if group.times == 1 else _draw_repeated(drawing, group, y)
    drawing.height = y + _PAD
    return drawing


def input_in_words(architecture: Architecture) -> str:
    """Return the shape of one example in words; inputs of an embedding are called tokens."""
    if not architecture.input_shape:
        return "of several parts or sizes"
    embeds = any("Embedding" in layer.kind for layer in architecture.layers)
    shape = shape_in_words(architecture.input_shape)
    return f"{shape} tokens" if embeds else shape


def _draw_once(drawing: Drawing, group: Group, y: int) -> int:
    for box in group.boxes:
        y = _draw_box(drawing, box, y, foot=_foot(box.layers))
    return y


def _draw_repeated(drawing: Drawing, group: Group, y: int) -> int:
    """Draw the boxes of a repeated group once, in a frame that says how often they repeat.

    Returns:
        The y at which the frame ends.
    """
    drawing.arrows.append((y, y + _GAP))
    top = y + _GAP
    y = top + _FRAME - _GAP // 2
    for box in group.boxes:
        y = _draw_box(drawing, box, y, foot="")
    y += _LINE + 4
    words = f"{group.times} × this: {_foot(group.layers)}"
    drawing.texts.append(Text(_LEFT, y - 2, words, small=True))
    y += _FRAME
    frame = Rectangle(2, top, WIDTH - 4, y - top, Markup("nw-net__frame"))
    drawing.rectangles.insert(0, frame)
    return y


def _draw_box(drawing: Drawing, box: Box, y: int, *, foot: str) -> int:
    """Draw an arrow and a box below `y`, and return the y at which the box ends."""
    top = y + _GAP
    drawing.arrows.append((y, top))
    lines = [(line, False) for line in box.lines] + ([(foot, True)] if foot else [])
    for place, (line, small) in enumerate(lines, 1):
        baseline = top + _PAD + place * _LINE - 4
        drawing.texts.append(Text(_LEFT + 10, baseline, line, small))
    bottom = top + 2 * _PAD + len(lines) * _LINE
    style = _STYLES[_state(box.layers)]
    drawing.rectangles.append(Rectangle(_LEFT, top, _RIGHT - _LEFT, bottom - top, style))
    if box.skip:
        drawing.skips.append(
            (y + _GAP // 2, bottom - _PAD - (len(lines) - len(box.lines)) * _LINE - 5)
        )
    return bottom


def _state(layers: Sequence[Layer]) -> str:
    states = {layer.state for layer in layers} - {""}
    return "trained" if "trained" in states else "frozen" if states else ""


def _foot(layers: Sequence[Layer]) -> str:
    """Describe `layers`: their parameters, whether these are trained, and the output shape."""
    total = sum(layer.parameters for layer in layers)
    shape = f"→ {shape_in_words(layers[-1].output_shape)}" if layers[-1].output_shape else ""
    if not total:
        return shape
    return f"{write_number(total, '')} parameters, {_state(layers)} {shape}".rstrip()


def shape_in_words(shape: Sequence[int]) -> str:
    """Return a shape in words, such as `28×28×1`."""
    return "×".join(map(str, shape))


def _in_words(architecture: Architecture, groups: Sequence[Group]) -> str:
    parts = [f"From input {input_in_words(architecture)}"]
    for group in groups:
        if group.times == 1:
            parts += [f"{', '.join(box.lines)} ({_foot(box.layers)})" for box in group.boxes]
        else:
            boxes = "; then ".join(", ".join(box.lines) for box in group.boxes)
            parts.append(f"{group.times} times {boxes} ({_foot(group.layers)})")
    return ". ".join(parts).replace(" →", "; output").replace("→", "output") + "."
