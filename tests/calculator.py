"""Compute in Python what the calculator of *Your case* should show, from the page's presets."""

import numpy as np

from nodewise.predict.fit import TAILS
from nodewise.predict.law import LAWS


def step_s(preset, batch, nodes, **typed):
    """Return the seconds of a step by the fit; `typed` replaces coefficients of the preset."""
    return float(_steps_s(preset, preset["values"] | typed, batch, nodes))


def interval_s(preset, batch, nodes, **typed):
    """Return both ends of the 90 % interval of `step_s`."""
    return np.quantile(drawn_s(preset, batch, nodes, **typed), TAILS)


def drawn_s(preset, batch, nodes, **typed):
    """Return the seconds of a step by each draw of the preset."""
    drawn = {name: one["unit"] * np.array(one["counts"]) for name, one in preset["draws"].items()}
    return _steps_s(preset, drawn | typed, batch, nodes)


def _steps_s(preset, values, batch, nodes):
    law = LAWS[preset["law"]](**preset["settings"])
    return law.evaluate(values, nodes, batch, preset["payload"])
