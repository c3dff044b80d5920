"""Drawn garments: the ten kinds of clothing of Fashion-MNIST, cut anew for every template.

Each `_kind(pen, rng)` draws one piece with its own measures (length, sleeves, neck, heel, …). Kinds
overlap on purpose, as real ones do: a shirt is a T-shirt or a pullover with a collar and buttons.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from nodewise.datasets.standins.pen import Pen
from nodewise.datasets.standins.warping import TEMPLATE_SIZE


def _seam(rng: np.random.Generator) -> float:
    """Return the grey of a seam, a button or a print: darker than the cloth, which is 1."""
    return float(rng.uniform(0.2, 0.7))


def _neck(pen: Pen, rng: np.random.Generator, top: float, width: float) -> None:
    """Cut a round or a pointed neck."""
    depth = rng.uniform(0.06, 0.22)
    if rng.random() < 0.65:
        pen.disc((0, top - 0.03), (width, depth + 0.03), 0)
    else:
        pen.area([(-width, top - 0.05), (width, top - 0.05), (0, top + 1.5 * depth)], 0)


def _collar(pen: Pen, rng: np.random.Generator, top: float, width: float) -> None:
    """Lay a collar of two wings around the neck."""
    grey, drop = _seam(rng), rng.uniform(0.12, 0.22)
    for side in (-1, 1):
        pen.area(
            [(0, top + 0.1), (side * width, top - 0.04), (side * width * 1.1, top + drop)], grey
        )
    pen.disc((0, top - 0.02), (width * 0.55, 0.07), 0)


def _buttons(pen: Pen, rng: np.random.Generator, top: float, bottom: float) -> None:
    """Sew a button row from `top` to `bottom`."""
    grey = _seam(rng)
    pen.line([(0, top), (0, bottom)], rng.uniform(0.02, 0.05), grey)
    for y in np.linspace(top + 0.1, bottom - 0.1, int(rng.integers(3, 7))):
        pen.disc((0.04, float(y)), (0.035, 0.035), grey)


def _short_sleeved(pen: Pen, rng: np.random.Generator, bottom: float) -> float:
    """Cut a body with short sleeves down to `bottom`; return the height of its shoulders."""
    top, chest = rng.uniform(-0.92, -0.8), rng.uniform(0.42, 0.55)
    waist = chest * rng.uniform(0.85, 1.02)
    out, down = rng.uniform(0.2, 0.42), rng.uniform(0.25, 0.5)
    shoulder = (chest * 0.95, top + 0.1)
    cuff = (chest + out, top + 0.1 + down)
    armpit = (chest, top + 0.1 + rng.uniform(0.35, 0.45))
    under = (cuff[0] - rng.uniform(0.12, 0.2), cuff[1] + rng.uniform(0.08, 0.14))
    hem = (waist * rng.uniform(0.95, 1.1), bottom)
    pen.both([(0.2, top), shoulder, cuff, under, armpit, (waist, 0.2), hem])
    return float(top)


def _long_sleeved(pen: Pen, rng: np.random.Generator, bottom: float) -> float:
    """Cut a body with long sleeves down to `bottom`; return the height of its shoulders."""
    top, chest = rng.uniform(-0.95, -0.85), rng.uniform(0.4, 0.5)
    reach, wrist = rng.uniform(0.72, 0.95), rng.uniform(0.35, 0.75)
    wide = rng.uniform(0.13, 0.2)
    hem = chest * rng.uniform(0.9, 1.12)
    pen.both([(0.18, top), (chest, top + 0.1), (chest, bottom * 0.5), (hem, bottom)])
    for side in (-1, 1):
        sleeve = [
            (chest * 0.8, top + 0.08),
            (chest + 0.08, top + 0.16),
            (reach, wrist - 0.05),
            (reach - wide, wrist),
            (chest * 0.9, top + 0.5),
        ]
        pen.area([(side * x, y) for x, y in sleeve], rng.uniform(0.85, 1))
        pen.line([(side * chest * 0.95, top + 0.35), (side * hem, bottom * 0.7)], 0.03, 0.45)
    return float(top)


def _t_shirt(pen: Pen, rng: np.random.Generator) -> None:
    top = _short_sleeved(pen, rng, rng.uniform(0.7, 0.95))
    _neck(pen, rng, top, rng.uniform(0.17, 0.28))
    if rng.random() < 0.45:  # a print on the chest
        size = (rng.uniform(0.1, 0.28), rng.uniform(0.08, 0.25))
        pen.disc((rng.uniform(-0.05, 0.05), rng.uniform(-0.35, 0.1)), size, _seam(rng))


def _trouser(pen: Pen, rng: np.random.Generator) -> None:
    hip, crotch, knee = rng.uniform(0.28, 0.4), rng.uniform(-0.4, -0.15), rng.uniform(0.7, 1)
    flare, gap = rng.uniform(0.8, 1.25), rng.uniform(0.02, 0.14)
    for side in (-1, 1):
        leg = [
            (0, -0.95),
            (hip * 0.9, -0.95),
            (hip, crotch),
            (gap + hip * knee * 0.75, 0.3),
            (gap + hip * knee * 0.75 * flare, 0.95),
            (gap + 0.02, 0.95),
            (gap * 0.7, 0.3),
            (0.01, crotch),
        ]
        pen.area([(side * x, y) for x, y in leg], rng.uniform(0.85, 1))
    grey = _seam(rng)
    pen.line([(-hip * 0.9, -0.85), (hip * 0.9, -0.85)], 0.03, grey)
    pen.line([(0, -0.85), (0, crotch)], 0.03, grey)


def _pullover(pen: Pen, rng: np.random.Generator) -> None:
    bottom = rng.uniform(0.65, 0.9)
    top = _long_sleeved(pen, rng, bottom)
    if rng.random() < 0.3:  # a roll neck
        pen.area([(-0.18, top - 0.14), (0.18, top - 0.14), (0.2, top + 0.06), (-0.2, top + 0.06)])
        pen.line([(-0.2, top + 0.04), (0.2, top + 0.04)], 0.03, _seam(rng))
    else:
        _neck(pen, rng, top, rng.uniform(0.14, 0.22))
    pen.line([(-0.5, bottom - 0.12), (0.5, bottom - 0.12)], 0.04, 0.75)  # the ribbed hem


def _dress(pen: Pen, rng: np.random.Generator) -> None:
    shoulder, waist = rng.uniform(0.22, 0.34), rng.uniform(0.17, 0.27)
    waist_at, hem, bottom = rng.uniform(-0.35, 0), rng.uniform(0.25, 0.62), rng.uniform(0.75, 0.98)
    pen.both(
        [
            (0.14, -0.95),
            (shoulder, -0.88),
            (shoulder * 0.85, -0.55),
            (waist, waist_at),
            ((waist + hem) / 2, 0.35),
            (hem, bottom),
        ]
    )
    kind = rng.random()
    if kind > 0.55:  # sleeves: short or long
        length = rng.uniform(0.25, 0.4) if kind < 0.8 else rng.uniform(0.8, 1.1)
        for side in (-1, 1):
            end = (shoulder + 0.25 * length + 0.1, -0.85 + length)
            sleeve = [
                (shoulder * 0.8, -0.9),
                (shoulder + 0.08, -0.85),
                end,
                (end[0] - 0.14, end[1] + 0.03),
                (shoulder * 0.8, -0.5),
            ]
            pen.area([(side * x, y) for x, y in sleeve], 0.95)
    _neck(pen, rng, -0.95, rng.uniform(0.12, 0.2))
    if rng.random() < 0.5:
        pen.line([(-waist, waist_at), (waist, waist_at)], rng.uniform(0.03, 0.08), _seam(rng))


def _coat(pen: Pen, rng: np.random.Generator) -> None:
    bottom = rng.uniform(0.85, 1)
    top = _long_sleeved(pen, rng, bottom)
    grey = _seam(rng)
    front = rng.uniform(0.3, 0.6)
    if rng.random() < 0.4:  # worn open
        pen.area(
            [(-0.02, top + 0.3), (0.02, top + 0.3), (front * 0.3, bottom), (-front * 0.3, bottom)],
            0,
        )
    pen.line([(0, top + 0.2), (0, bottom)], rng.uniform(0.03, 0.07), grey * 0.6)
    for side in (-1, 1):  # lapels and pockets
        pen.line([(side * 0.2, top), (side * 0.16, top + 0.2), (0, top + front)], 0.05, grey)
        if rng.random() < 0.7:
            pen.line([(side * 0.2, 0.25), (side * 0.36, 0.22)], 0.05, grey)
    pen.disc((0, top - 0.02), (0.13, rng.uniform(0.05, 0.16)), 0)


def _sandal(pen: Pen, rng: np.random.Generator) -> None:
    heel = float(rng.choice([0.0, rng.uniform(0.2, 0.75)]))
    low, thick, grey = rng.uniform(0.45, 0.65), rng.uniform(0.07, 0.16), rng.uniform(0.55, 1)
    along = [-0.95, -0.4, 0.2, 0.85]
    rise = [0.05, 0, heel * 0.5, heel]

    def sole(x: float) -> float:
        return low - float(np.interp(x, along, rise))

    pen.area([(x, sole(x)) for x in along] + [(x, sole(x) + thick) for x in along[::-1]])
    if heel > 0:  # a wedge or a thin heel
        inner = float(rng.choice([-0.3, rng.uniform(0.65, 0.75)]))
        pen.area(
            [(inner, sole(inner)), (0.86, low - heel), (0.82, low + thick), (inner, low + thick)]
        )
    for _ in range(int(rng.integers(1, 4))):  # straps over the foot
        x, high, width = rng.uniform(-0.7, 0), rng.uniform(0.3, 0.55), rng.uniform(0.06, 0.15)
        end = x + rng.uniform(0.35, 0.5)
        top = [(x + 0.12, sole(x) - high), (end - 0.1, sole(end) - high)]
        pen.line([(x, sole(x)), *top, (end, sole(end))], width, grey)
    if rng.random() < 0.7:  # a strap around the ankle
        up = sole(0.8) - rng.uniform(0.3, 0.5)
        front = rng.uniform(0.1, 0.3)
        pen.line(
            [(0.8, sole(0.8)), (0.76, up), (front, up - 0.05), (front - 0.1, sole(front))],
            0.07,
            grey,
        )


def _shirt(pen: Pen, rng: np.random.Generator) -> None:
    bottom = rng.uniform(0.7, 0.95)
    cut = _short_sleeved if rng.random() < 0.45 else _long_sleeved
    top = cut(pen, rng, bottom)
    _collar(pen, rng, top, rng.uniform(0.17, 0.26))
    _buttons(pen, rng, top + 0.15, bottom if rng.random() < 0.75 else -0.2)
    if rng.random() < 0.4:
        pen.line([(0.15, -0.35), (0.33, -0.35)], 0.04, _seam(rng))  # the breast pocket


def _sneaker(pen: Pen, rng: np.random.Generator) -> None:
    low, high, tongue = rng.uniform(0.35, 0.5), rng.uniform(0.6, 0.85), rng.uniform(0.05, 0.2)
    toe = rng.uniform(0.25, 0.35)
    collar = low - high * 0.8
    upper = [(-0.93, low), (-0.9, low - toe * 0.7), (-0.7, low - toe), (-0.35, low - toe * 1.2)]
    upper += [(0, collar), (0.18, collar - tongue), (0.35, collar), (0.6, low - high * 0.75)]
    upper += [(0.85, low - high), (0.93, low - high * 0.5), (0.92, low)]
    pen.area(upper)
    pale, thick = rng.uniform(0.4, 1), rng.uniform(0.1, 0.2)
    pen.area(
        [(-0.96, low - 0.03), (0.95, low - 0.03), (0.95, low + thick), (-0.85, low + thick)], pale
    )
    pen.line([(-0.95, low - 0.02), (0.95, low - 0.02)], 0.03, 0.35)
    grey = _seam(rng)
    for x in np.linspace(-0.3, 0.05, int(rng.integers(2, 5))):  # the laces
        y = low - toe * 1.1 - (x + 0.35) * high * 0.6
        pen.line([(x - 0.05, y - 0.02), (x + 0.12, y + 0.14)], 0.04, grey)
    if rng.random() < 0.6:  # a stripe on the side
        x = rng.uniform(0.15, 0.35)
        pen.line(
            [(x, low - 0.08), (x + 0.2, low - high * 0.6)], rng.uniform(0.05, 0.14), _seam(rng)
        )


def _bag(pen: Pen, rng: np.random.Generator) -> None:
    half, top, bottom = rng.uniform(0.55, 0.95), rng.uniform(-0.4, 0.05), rng.uniform(0.6, 0.9)
    narrow = rng.uniform(0.75, 1.05)
    kind = rng.random()
    if kind < 0.6:  # a handle
        size = (half * rng.uniform(0.35, 0.65), rng.uniform(0.25, 0.55))
        pen.arc((0, top + 0.05), size, (180, 360), rng.uniform(0.06, 0.12), rng.uniform(0.6, 1))
    elif kind < 0.85:  # a shoulder strap
        peak = (rng.uniform(-0.2, 0.2), -0.95)
        pen.line(
            [(-half * 0.9, top + 0.1), peak, (half * 0.9, top + 0.1)], 0.06, rng.uniform(0.6, 1)
        )
    pen.both(
        [(half * narrow, top), (half, top + 0.15), (half, bottom - 0.1), (half * 0.93, bottom)]
    )
    grey = _seam(rng)
    if rng.random() < 0.5:  # a flap
        lower = top + (bottom - top) * rng.uniform(0.35, 0.6)
        pen.line(
            [(-half, top + 0.05), (-half * 0.8, lower), (half * 0.8, lower), (half, top + 0.05)],
            0.05,
            grey,
        )
    else:
        pen.line([(-half, top + 0.12), (half, top + 0.12)], 0.04, grey)
    if rng.random() < 0.6:  # a clasp
        pen.disc((0, top + rng.uniform(0.2, 0.5)), (0.08, 0.06), grey)


def _ankle_boot(pen: Pen, rng: np.random.Generator) -> None:
    low, top = rng.uniform(0.55, 0.75), rng.uniform(-0.95, -0.4)
    front, heel = rng.uniform(-0.15, 0.15), rng.choice([0.05, rng.uniform(0.1, 0.4)])
    back = rng.uniform(0.78, 0.9)
    toe = rng.uniform(0.25, 0.35)
    arch, ground = low - heel * 0.3, low + 0.1 + heel * 0.3
    shoe = [(-0.93, low), (-0.88, low - toe * 0.8), (-0.6, low - toe)]
    shoe += [
        (front - 0.25, low - toe * 1.6),
        (front, low - toe * 2.3),
        (front + 0.02, top),
        (back - 0.05, top),
    ]
    pen.area([*shoe, (back, low - 0.5), (back + 0.05, arch), (0.3, arch)])
    grey = _seam(rng)
    middle = low - heel * 0.5
    block = [(0.42, middle), (back + 0.05, middle), (back, ground), (0.5, ground)]
    pen.area(block, rng.uniform(0.4, 0.9))
    pen.line(
        [(-0.93, low + 0.02), (0.1, low + 0.02), (0.5, low - heel * 0.4)],
        0.09,
        rng.uniform(0.4, 0.9),
    )
    style = rng.random()
    if style < 0.4:  # laces
        for y in np.linspace(top + 0.1, low - toe * 2, 4):
            pen.line([(front, float(y)), (front + 0.25, float(y) + 0.05)], 0.04, grey)
    elif style < 0.75:  # a zip or an elastic side
        x = front + rng.uniform(0.3, 0.45)
        pen.line([(x, top), (x + 0.05, low - 0.3)], rng.uniform(0.04, 0.15), grey)
    else:  # a buckled strap
        pen.line([(front - 0.1, low - toe * 2), (back, low - toe * 2)], 0.07, grey)


KINDS: tuple[Callable[[Pen, np.random.Generator], None], ...] = (
    _t_shirt, _trouser, _pullover, _dress, _coat, _sandal, _shirt, _sneaker, _bag, _ankle_boot,
)  # fmt: skip


def template(label: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Cut one piece of the kind `label`.

    Returns:
        Grey values 0 (nothing) … 1 (cloth), TEMPLATE_SIZE × TEMPLATE_SIZE.
    """
    pen = Pen(rng)
    KINDS[label](pen, rng)
    return pen.drawn() * _folds(rng)


def _folds(rng: np.random.Generator) -> NDArray[np.float32]:
    """Return the light on the cloth: soft folds, darker by up to a quarter."""
    axis = np.linspace(-1, 1, TEMPLATE_SIZE, dtype=np.float32)
    angle, rate, phase = rng.uniform(0, np.pi), rng.uniform(2, 9), rng.uniform(0, 2 * np.pi)
    along = np.cos(angle) * axis[None] + np.sin(angle) * axis[:, None]
    depth = rng.uniform(0, 0.25)
    light: NDArray[np.float32] = 1 - depth * (0.5 + 0.5 * np.sin(rate * along + phase))
    return light.astype(np.float32)


def dye(sampled: NDArray[np.float32], rng: np.random.Generator) -> NDArray[np.float32]:
    """Turn warped drawings (n × pixels) into grey values 0 … 1, each of its own cloth.

    Brightness and contrast differ; a quarter of the pieces is striped across or along.
    """
    n, pixels = sampled.shape
    brightness = rng.uniform(0.3, 1.0, (n, 1)).astype(np.float32)
    contrast = rng.uniform(0.5, 1.6, (n, 1)).astype(np.float32)
    grey = brightness * np.clip(sampled, 0, 1) ** contrast
    striped = np.flatnonzero(rng.random(n) < 0.25)
    side = round(pixels**0.5)
    axis = np.linspace(-1, 1, side, dtype=np.float32)
    across = rng.random((len(striped), 1)) < 0.7
    place = np.where(across, np.repeat(axis, side), np.tile(axis, side))
    rate = rng.uniform(8, 25, (len(striped), 1)).astype(np.float32)
    depth = rng.uniform(0.1, 0.45, (len(striped), 1)).astype(np.float32)
    grey[striped] *= 1 - depth * (0.5 + 0.5 * np.sin(rate * place))
    return grey
