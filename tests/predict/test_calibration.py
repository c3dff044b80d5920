"""Evaluation of calibrations: true values are recovered, and schemas hold."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import make_calibration as make
from nodewise.core.errors import UserError
from nodewise.core.schema import json_text
from nodewise.predict.calibration import AllReduces, all_reduces
from nodewise.results.calibration import Calibration, read_calibration


def ring(calibration: Calibration) -> AllReduces:
    return all_reduces(calibration)["ring"]


# --- the law ---


@given(
    software=st.just(0.0) | st.floats(1e-4, 2e-2),
    latency=st.floats(5e-4, 2e-3),
    # The smallest payload shows the cost of messages, the largest the rate of the link.
    bandwidth=st.floats(1e7, 1e9),
)
@example(software=0.02, latency=0.002, bandwidth=6.97e8)
def test_exact_times_give_software_latency_and_bandwidth_back(software, latency, bandwidth):
    found = ring(make.calibration(law=(software, latency, 1 / bandwidth))).coefficients
    assert found["latency_s"] == pytest.approx(make.SHARE * latency, rel=1e-2)
    slack = make.SHARE * latency * 1e-2
    assert found["software_s"] == pytest.approx(make.SHARE * software, rel=1e-2, abs=slack)
    assert found["bandwidth_bytes_per_s"] == pytest.approx(bandwidth / make.SHARE, rel=1e-2)


@pytest.mark.slow
def test_noise_widens_the_intervals_and_they_hold_the_truth():
    truth = {"software_s": make.SHARE * make.SOFTWARE_S, "latency_s": make.SHARE * make.LATENCY_S}
    truth["bandwidth_bytes_per_s"] = 1 / (make.SHARE * make.SECONDS_PER_BYTE)
    held, widths = [], []
    for seed in range(20):
        row = ring(make.calibration(noise=0.05, repeats=3, seed=seed)).coefficients
        held += [row[f"{name}_low"] <= truth[name] <= row[f"{name}_high"] for name in truth]
        widths.append(row["latency_s_high"] - row["latency_s_low"])
    calm = ring(make.calibration(noise=0.001, repeats=3)).coefficients
    assert np.mean(held) > 0.8  # 0.9 minus 2.6 standard errors of 60 trials
    assert calm["latency_s_high"] - calm["latency_s_low"] < np.median(widths) / 10


def test_two_node_counts_cannot_tell_software_from_latency():
    row = ring(make.calibration((1, 2))).coefficients
    both = row["software_s"] + 2 * row["latency_s"]
    truth = make.SHARE * (make.SOFTWARE_S + 2 * make.LATENCY_S)
    assert both == pytest.approx(truth, rel=0.05)
    # Each of them may be anything between nothing and all of the sum.
    for name in ("software_s", "latency_s"):
        assert row[f"{name}_high"] > 3 * max(row[f"{name}_low"], 1e-9)


def test_collectives_are_examined_apart():
    slow, quick = make.calibration(noise=0.02), make.calibration(collectives=("direct",))
    both = [
        one.model_copy(update={"all_reduces": one.all_reduces + other.all_reduces})
        for one, other in zip(slow.launches, quick.launches, strict=True)
    ]
    found = all_reduces(slow.model_copy(update={"launches": both}))
    assert list(found) == ["ring", "direct"]
    for of, alone in zip(found.values(), (slow, quick), strict=True):
        (expected,) = all_reduces(alone).values()
        assert of.times.equals(expected.times)
    assert all_reduces(make.calibration((1,))) == {}


# --- the file ---


def test_a_calibration_reads_back(tmp_path):
    path = tmp_path / "calibration.json"
    for calibration in (make.calibration(), make.without_launches("refused", "no cgroup")):
        path.write_text(json_text(calibration))
        assert read_calibration(path) == calibration


def test_a_file_that_is_no_calibration_gives_one_line(tmp_path):
    path = tmp_path / "calibration.json"
    with pytest.raises(UserError, match="cannot be read"):
        read_calibration(path)
    path.write_text("{")
    with pytest.raises(UserError, match=r"calibration\.json: "):
        read_calibration(path)
    text = json_text(make.without_launches("failed", "x"))
    path.write_text(text.replace('"failed"', '"ok"'))
    with pytest.raises(UserError, match="status ok needs launches"):
        read_calibration(path)
