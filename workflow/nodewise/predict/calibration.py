"""The law of all-reduces, fitted to those of a calibration."""

import numpy as np
import pandas as pd
import sympy

from nodewise.core.intervals import median_error
from nodewise.predict.fit import Fit, fit
from nodewise.predict.law import LINK, Law, Parameter, S, alpha, beta, n, positive
from nodewise.predict.laws.collectives import RingAllReduce
from nodewise.predict.points import Points
from nodewise.results.calibration import Calibration


class ConsecutiveAllReduces(Law):
    """T = max(s + 2(n−1)·α, 2(n−1)/n·S·β): the time of one of many all-reduces in a row.

    Software processes one piece of the payload while another is on the link, so the time is the
    longer of the two, not their sum. The law counts the 2(n−1) messages of `RingAllReduce`, and one
    call of the software.
    """

    name = "all_reduces"
    title = "Consecutive all-reduces"
    source = RingAllReduce.source
    parameters = (Parameter("s", "software_s", "s", "link", "a call of the software"), *LINK)
    compute = wait = input = sympy.S.Zero
    communicate = sympy.Max(positive("s") + 2 * (n - 1) * alpha, 2 * S * beta * (n - 1) / n)


_STARTS = (0.5, 3.0)  # a fast link begins below the software's time, and would not be seen


def fit_rings(calibration: Calibration) -> tuple[pd.DataFrame, Fit] | None:
    """Fit the law to the all-reduces in a ring of a calibration; None if it has none.

    Returns:
        One row per `nodes` and `payload_bytes`: the median `seconds` of its launches and those of
        the law, `fitted`, in the node's own time (wall time × share); and the fit.
    """
    rows = [
        (one.nodes, block.payload_bytes, calibration.cluster.share * block.seconds_each)
        for one in calibration.launches
        for block in one.all_reduces
        if block.collective == "ring"
    ]
    if not rows:
        return None
    axes = ["nodes", "payload_bytes"]
    launches = pd.DataFrame(rows, columns=[*axes, "own"]).groupby(axes)["own"]
    times = launches.agg(seconds="median", launches="size").reset_index()
    spread = launches.apply(lambda own: np.log(own).std(ddof=1)).to_numpy()
    noise = spread * median_error(times["launches"])
    at = times["nodes"], 0, times["payload_bytes"], times["seconds"]
    points = Points.of(*at, noise=noise)
    law = fit(ConsecutiveAllReduces(), points, draws=0, starts=_STARTS)
    return times.assign(fitted=law.evaluate(points)), law
