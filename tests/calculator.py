"""Compute in Python what the calculator of *Your case* should show, from the page's presets."""

import numpy as np

from nodewise.predict.fit import FAR_OCTAVES, TAILS
from nodewise.predict.law import LAWS


def step_s(preset, batch, nodes, **typed):
    """Return the seconds of a step by the fit; `typed` replaces coefficients of the preset."""
    deviation = _between(preset["deviations"], batch)
    return float(_steps_s(preset, preset["values"] | typed, deviation, batch, nodes))


def interval_s(preset, batch, nodes, **typed):
    """Return both ends of the 90 % interval of `step_s`."""
    return np.quantile(drawn_s(preset, batch, nodes, **typed), TAILS)


def drawn_s(preset, batch, nodes, **typed):
    """Return the seconds of a step by each draw of the preset."""
    draws = preset["draws"]
    values = {name: _drawn(one) for name, one in draws["values"].items()} | typed
    measured = {at: _drawn(one) for at, one in draws["deviations"].items()}
    apart = min(abs(np.log2(batch / int(at))) for at in measured)
    far = min(apart, FAR_OCTAVES) / FAR_OCTAVES
    deviation = _between(measured, batch) + _drawn(draws["off"]) * far * step_s(preset, batch, 1)
    return _steps_s(preset, values, deviation, batch, nodes)


def _drawn(told):
    return told["unit"] * np.array(told["counts"])


def _between(deviations, batch):
    """Interpolate deviations at `batch`: per example, they are linear in the log of the batch.

    `deviations` has a number, or an array with one number for each draw, by batch. Beyond the
    smallest and the largest batch, the deviation per example is constant.
    """
    batches = sorted(map(int, deviations))
    if batch <= batches[0] or batch >= batches[-1]:
        near = batches[0] if batch <= batches[0] else batches[-1]
        return deviations[str(near)] / near * batch
    above = next(one for one in batches if one >= batch)
    below = batches[batches.index(above) - 1]
    share = np.log(batch / below) / np.log(above / below)
    per_example = [deviations[str(one)] / one for one in (below, above)]
    return batch * ((1 - share) * per_example[0] + share * per_example[1])


def _steps_s(preset, values, deviation, batch, nodes):
    law = LAWS[preset["law"]](**preset["settings"])
    known = values | {"compute_deviation_s": deviation}
    return law.evaluate(known, nodes, batch, preset["payload"])
