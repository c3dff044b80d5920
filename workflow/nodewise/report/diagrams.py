"""What nodes do in a step, told as lanes and rows -> where boxes, words and arrows stand.

A lane is a node, time runs downwards. One language for all strategies: a filled box computes or
updates, a dashed one waits, an arrow is a message, rows are numbered. As wide as a telephone, in
the units of its viewBox; colours and letters come from the page's style sheet.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from textwrap import wrap
from typing import Literal

from markupsafe import Markup

from nodewise.report.drawing import Rectangle

WIDTH = 340
_LEFT = 24  # of the lanes; numbers stand before them
_LETTERS = 46  # that fit beside a number
_LINE, _PAD, _GAP = 15, 6, 10
_HEAD, _BOX, _ARROW, _BRACKET = 36, 20, 14, 18
_WIDEST = 96

Part = Literal["compute", "apply"]


@dataclass(frozen=True)
class Lane:
    """A node: what it is, and what it holds of the model."""

    name: str
    holds: str


@dataclass(frozen=True)
class Row:
    """What happens next: what lanes do, then which messages go from lane to lane.

    Attributes:
        words: it in a sentence.
        boxes: lane -> what it does meanwhile; `part` of a step.
        waits: lanes that wait meanwhile.
        arrows: (from, to); there and back is one arrow with two heads.
    """

    words: str
    boxes: Mapping[int, str] = field(default_factory=dict)
    part: Part = "compute"
    waits: Sequence[int] = ()
    arrows: Sequence[tuple[int, int]] = ()


@dataclass(frozen=True)
class Diagram:
    """A step. `groups` are lanes (first, last) that belong together, and what they are."""

    title: str
    lanes: Sequence[Lane]
    rows: Sequence[Row]
    groups: Sequence[tuple[int, int, str]] = ()


@dataclass(frozen=True)
class Text:
    """One line of words in the drawing; `style` is a class of the style sheet."""

    x: int
    y: int
    words: str
    style: Markup


@dataclass
class Drawing:
    """Everything in the picture; `words` say all of it. Lines and arrows are SVG paths."""

    title: str
    words: str
    width: int = WIDTH
    height: int = 0
    rectangles: list[Rectangle] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
    lifelines: list[Markup] = field(default_factory=list)
    arrows: list[Markup] = field(default_factory=list)


def draw(diagram: Diagram) -> Drawing:
    """Return the picture of a step."""
    drawing = Drawing(diagram.title, in_words(diagram))
    y = _draw_heads(drawing, diagram)
    for number, row in enumerate(diagram.rows, 1):
        y = _draw_row(drawing, row, number, y + _GAP, len(diagram.lanes))
    drawing.height = y + _PAD
    return drawing


def in_words(diagram: Diagram) -> str:
    """Return the diagram in sentences: who is there, then row by row."""
    heads = "; ".join(f"{lane.name}: {lane.holds}" for lane in diagram.lanes)
    groups = [
        f"{diagram.lanes[first].name} to {diagram.lanes[last].name}: {words}."
        for first, last, words in diagram.groups
    ]
    rows = [_row_in_words(row, n, diagram.lanes) for n, row in enumerate(diagram.rows, 1)]
    return " ".join([f"{heads}.", *groups, *rows])


def _row_in_words(row: Row, number: int, lanes: Sequence[Lane]) -> str:
    told = [f"{lanes[lane].name}: {label}" for lane, label in row.boxes.items()]
    told += [f"{lanes[lane].name}: waits" for lane in row.waits]
    told += [f"message from {lanes[a].name} to {lanes[b].name}" for a, b in row.arrows]
    return f"{number}. {row.words} {'; '.join(told)}."


def _draw_heads(drawing: Drawing, diagram: Diagram) -> int:
    count = len(diagram.lanes)
    y = _PAD
    for first, last, words in diagram.groups:
        half = _box_width(count) // 2
        left, right = _middle(first, count) - half, _middle(last, count) + half
        drawing.texts.append(_text((left + right) // 2, y + 10, words, "small"))
        drawing.lifelines.append(_path(f"M{left} {y + _BRACKET}v-4H{right}v4"))
    if diagram.groups:
        y += _BRACKET + 3
    for place, lane in enumerate(diagram.lanes):
        x = _middle(place, count)
        drawing.rectangles.append(_rectangle(x, y, _box_width(count), _HEAD, "node"))
        drawing.texts.append(_text(x, y + 15, lane.name, "name"))
        drawing.texts.append(_text(x, y + 29, lane.holds, "small"))
    return y + _HEAD


def _draw_row(drawing: Drawing, row: Row, number: int, y: int, lanes: int) -> int:
    """Draw a row below `y`; return where it ends."""
    drawing.rectangles.append(_rectangle(10, y, 18, 18, "number"))
    drawing.texts.append(_text(10, y + 13, str(number), "small"))
    for line in wrap(row.words, _LETTERS):
        y += _LINE
        drawing.texts.append(_text(_LEFT, y - 2, line, "words"))
    y += _PAD
    top = y
    if row.boxes or row.waits:
        for lane, label, style in _boxes(row):
            x = _middle(lane, lanes)
            drawing.rectangles.append(_rectangle(x, y, _box_width(lanes), _BOX, style))
            drawing.texts.append(_text(x, y + 14, label, "label"))
        y += _BOX
    for level in _levels(row.arrows):
        y += _ARROW
        for start, end, both in level:
            path = _arrow(_middle(start, lanes), _middle(end, lanes), y - _PAD + 1, both)
            drawing.arrows.append(path)
    drawing.lifelines += [_path(f"M{_middle(n, lanes)} {top}V{y}") for n in range(lanes)]
    return y


def _boxes(row: Row) -> Iterator[tuple[int, str, str]]:
    for lane, label in row.boxes.items():
        yield lane, label, row.part
    for lane in row.waits:
        yield lane, "waits", "wait"


def _levels(arrows: Sequence[tuple[int, int]]) -> list[list[tuple[int, int, bool]]]:
    """Return the arrows, and whether they have two heads, level by level: none over another."""
    levels: list[list[tuple[int, int, bool]]] = []
    for start, end in arrows:
        back = (end, start) in arrows
        if back and start > end:
            continue  # drawn with the one there
        low, high = sorted((start, end))
        for level in levels:
            if all(high <= min(a, b) or low >= max(a, b) for a, b, _ in level):
                level.append((start, end, back))
                break
        else:
            levels.append([(start, end, back)])
    return levels


def _middle(lane: int, lanes: int) -> int:
    return _LEFT + (WIDTH - _LEFT) * (2 * lane + 1) // (2 * lanes)


def _box_width(lanes: int) -> int:
    return min(_WIDEST, (WIDTH - _LEFT) // lanes - 6)


def _arrow(start: int, end: int, y: int, both: bool) -> Markup:
    ahead = 1 if end > start else -1
    start, end = start + 3 * ahead, end - 3 * ahead
    path = f"M{start} {y}H{end}m{-5 * ahead} -3l{5 * ahead} 3l{-5 * ahead} 3"
    if both:
        path += f"M{start + 5 * ahead} {y - 3}l{-5 * ahead} 3l{5 * ahead} 3"
    return _path(path)


def _path(numbers: str) -> Markup:
    return Markup(numbers)  # noqa: S704 (letters and numbers of this module)


def _style(name: str) -> Markup:
    return Markup("nw-way__{}").format(name)


def _text(x: int, y: int, words: str, style: str) -> Text:
    return Text(x, y, words, _style(style))


def _rectangle(middle: int, y: int, width: int, height: int, style: str) -> Rectangle:
    return Rectangle(middle - width // 2, y, width, height, _style(style))
