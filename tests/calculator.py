"""The calculator of *Your case* in Python: what it should show, computed from the page's data."""

import numpy as np

from nodewise.predict.fit import FAR_OCTAVES, TAILS
from nodewise.predict.law import LAWS


def step_s(preset, batch, nodes, **typed):
    """Return the fitted step time in seconds, with `typed` coefficients in place of fitted ones."""
    deviation = _between(preset["deviations"], batch)
    return float(_steps_s(preset, preset["values"] | typed, deviation, batch, nodes))


def interval_s(preset, batch, nodes, **typed):
    """Return both ends of the 90 % interval of the step time, in seconds."""
    return np.quantile(drawn_s(preset, batch, nodes, **typed), TAILS)


def drawn_s(preset, batch, nodes, **typed):
    """Return the step time in seconds for each of the draws that the page holds."""
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
    """Return the deviation at `batch`, or one deviation per draw.

    Between two measured batches, the deviation per example is linear in the logarithm of the batch.
    Outside of them it is that of the nearest measured batch.
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
