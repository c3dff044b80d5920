"""The bottleneck of a step is named correctly under every law."""

import numpy as np
import pandas as pd
import pytest

from nodewise.predict.bottleneck import diagnose
from nodewise.predict.fit import Fit
from nodewise.predict.laws.collectives import CompressedAllGather, RingAllReduce
from nodewise.predict.laws.queues import GPipe, ParameterServer
from nodewise.predict.points import Points
from nodewise.results.columns import OVERHEAD

PAYLOAD = 1e6
VALUES = {
    "compute_fixed_s": 0.001,
    "compute_per_example_s": 1e-4,
    "jitter_s": 0.001,
    "jitter_share": 0.0,
    "input_per_example_s": 0.0,
    "latency_s": 0.001,
    "seconds_per_byte": 1e-8,
    "codec_seconds_per_byte": 2e-9,
    "service_s": 0.002,
    "hidden_share": 0.0,
}


def diagnosis(law, nodes, *, input_s=np.nan, **values):
    """Return the diagnosis of one point whose step time follows the law; check its shares."""
    points = Points.of([nodes], [64], [PAYLOAD], [1.0])
    names = tuple((p.name, "") for p in law.parameters)
    theta = np.array([(VALUES | values)[name] for name, _ in names])
    fitted = Fit(law, names, theta, theta[None], 0.05, (True,) * len(names), len(points))
    step_s = float(fitted.evaluate(points)[0])
    row = dict.fromkeys(OVERHEAD["diagnosis"], "") | {"batch_per_worker": 64, "nodes": nodes}
    row |= {"step_time_s": step_s, "input_s": input_s * step_s}
    (found,) = diagnose(pd.DataFrame([row]), fitted, points).to_dict("records")
    shares = [value for name, value in found.items() if name.endswith("_share")]
    assert sum(shares) == pytest.approx(1)
    assert min(shares) >= 0
    return found


def test_coding_a_gradient_is_computing():
    alone = diagnosis(CompressedAllGather(0.03), 1)
    assert alone["compute_share"] == pytest.approx(1)


def test_serving_a_message_is_one_of_its_costs():
    served = diagnosis(ParameterServer(), 2, seconds_per_byte=0.0, jitter_s=0.0)
    assert served["latency_share"] > 0.2
    assert served["bandwidth_share"] == pytest.approx(0)


def test_stages_that_idle_wait_for_no_slow_node():
    found = diagnosis(GPipe(2, 100.0), 8, latency_s=0.0)
    assert found["bound"] == "bubble-bound"


def test_a_measured_wait_for_examples_is_no_computing():
    found = diagnosis(RingAllReduce(), 1, input_s=0.7)
    assert found["bound"] == "input-bound"
    assert found["input_share"] == pytest.approx(0.7)
    # The share is limited to what computing takes according to the law.
    assert diagnosis(RingAllReduce(), 1, input_s=3.0)["input_share"] == pytest.approx(1)


def test_examples_of_other_nodes_are_told_by_the_law():
    found = diagnosis(RingAllReduce(), 4, input_per_example_s=1e-3, input_s=0.01)
    assert found["bound"] == "input-bound"
