"""The law of consecutive all-reduces, as measured by a calibration, and its fit."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from nodewise.core.intervals import median_error
from nodewise.predict.fit import Fit, fit
from nodewise.predict.law import At, Floats, Law, Parameter, S, n, positive
from nodewise.predict.laws.ring import RingAllReduce
from nodewise.predict.parts_law import LINK, alpha, beta
from nodewise.predict.points import Points

_ITERATIONS = 10
_LATENCY, _SECONDS_PER_BYTE = LINK


class Messages(Law):
    """T = s + 2(n−1)·α: the time that an all-reduce spends in software, if the link is no limit.

    The law counts the 2(n−1) messages of `RingAllReduce`, and one call of the software whose time
    does not depend on the number of nodes. An exchange in which each node sends to each other one
    twice has as many messages.
    """

    name = "messages"
    title = "Messages"
    source = RingAllReduce.source
    parameters = (
        Parameter("s", "software_s", "s", "link", "a call of the software"),
        _LATENCY,
    )
    step = positive("s") + 2 * (n - 1) * alpha


class Bytes(Law):
    """T = 2(n−1)/n·S·β: the time that the bytes of an all-reduce need on a link."""

    name = "bytes"
    title = "Bytes on the link"
    source = RingAllReduce.source
    parameters = (_SECONDS_PER_BYTE,)
    step = 2 * S * beta * (n - 1) / n


@dataclass(frozen=True)
class FittedAllReduce:
    """T = max(s + 2(n−1)·α, 2(n−1)/n·S·β): two laws, each fitted to its own points.

    Consecutive all-reduces are split into pieces, and software processes one piece while another is
    on the link. The time is therefore the longer of the two, not their sum. (The sum is a seventh
    too large if both are equal.)
    """

    messages: Fit
    sent_bytes: Fit

    def evaluate(self, nodes: Floats, payload: Floats) -> Floats:
        """Return times in wall seconds."""
        at = At.of(nodes, 0, payload)
        longer: Floats = np.maximum(self.messages.evaluate(at), self.sent_bytes.evaluate(at))
        return longer

    def evaluate_interval(self, nodes: Floats, payload: Floats) -> tuple[Floats, Floats]:
        """Return both ends of the 90 % interval, in wall seconds: those of the longer time."""
        at = At.of(nodes, 0, payload)
        both = (self.messages.evaluate_interval(at), self.sent_bytes.evaluate_interval(at))
        low, high = (np.maximum(*ends) for ends in zip(*both, strict=True))
        return low, high


def _points(times: pd.DataFrame) -> Points:
    """Return the median wall seconds as points. `times` is as in `fit_all_reduces`."""
    walls = [np.asarray(wall) for wall in times["wall"]]
    spread = [
        np.std(np.log(w), ddof=1) * median_error(len(w)) if len(w) > 1 else np.nan for w in walls
    ]
    return Points.of(
        times["nodes"], 0, times["payload_bytes"], [np.median(w) for w in walls], noise=spread
    )


def fit_all_reduces(times: pd.DataFrame) -> FittedAllReduce:
    """Fit both laws, each to the points at which it predicts the longer time.

    The first fit uses the smallest payload for messages and the largest for bytes. These points
    keep their law. The fit is repeated until no other point changes its law.

    Args:
        times: one or more rows with the columns `nodes`, `payload_bytes` and `wall`, an array of
            the wall seconds of all launches.
    """
    points = _points(times)
    smallest = points.payload == points.payload.min()
    largest = points.payload == points.payload.max()
    to_messages, to_bytes = smallest, largest
    for _ in range(_ITERATIONS):
        messages = fit(Messages(), points.where(to_messages), draws=0)
        sent_bytes = fit(Bytes(), points.where(to_bytes), draws=0)
        longer = messages.evaluate(points.at) > sent_bytes.evaluate(points.at)
        before, to_messages = to_messages, smallest | (longer & ~largest)
        to_bytes = largest | ~to_messages
        if (to_messages == before).all():
            break
    return FittedAllReduce(
        fit(Messages(), points.where(to_messages)), fit(Bytes(), points.where(to_bytes))
    )
