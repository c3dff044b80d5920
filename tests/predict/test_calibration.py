"""Evaluation of calibrations: true values are recovered, faults are reported, schemas hold."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import make_calibration as make
from nodewise.core.errors import UserError
from nodewise.core.schema import json_text
from nodewise.predict.calibration import SHARE_WITHIN, AllReduces, examine
from nodewise.results.calibration import Calibration, Launch, read_calibration


def ring(calibration: Calibration) -> AllReduces:
    return examine(calibration).all_reduces["ring"]


def first_of(calibration: Calibration, nodes: int) -> Launch:
    return next(launch for launch in calibration.launches if launch.nodes == nodes)


def changed(calibration: Calibration, **of_launch) -> Calibration:
    """Return the calibration with changes in its first launch of four nodes."""
    old = first_of(calibration, 4)
    new = old.model_copy(update=of_launch)
    launches = [new if launch is old else launch for launch in calibration.launches]
    return calibration.model_copy(update={"launches": launches})


# --- the law ---


@given(
    software=st.just(0.0) | st.floats(1e-4, 2e-2),
    latency=st.floats(5e-4, 2e-3),
    # The smallest payload shows the cost of messages, the largest the rate of the link.
    bandwidth=st.floats(1e7, 1e9),
)
@example(software=0.02, latency=0.002, bandwidth=6.97e8)
def test_exact_times_give_software_latency_and_bandwidth_back(software, latency, bandwidth):
    found = ring(make.calibration(law=(software, latency, 1 / bandwidth))).own_time
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
        row = ring(make.calibration(noise=0.05, repeats=3, seed=seed)).own_time
        held += [row[f"{name}_low"] <= truth[name] <= row[f"{name}_high"] for name in truth]
        widths.append(row["latency_s_high"] - row["latency_s_low"])
    calm = ring(make.calibration(noise=0.001, repeats=3)).own_time
    assert np.mean(held) > 0.8  # 0.9 minus 2.6 standard errors of 60 trials
    assert calm["latency_s_high"] - calm["latency_s_low"] < np.median(widths) / 10


def test_two_node_counts_cannot_tell_software_from_latency():
    row = ring(make.calibration((1, 2))).own_time
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
    found = examine(slow.model_copy(update={"launches": both})).all_reduces
    assert list(found) == ["ring", "direct"]
    for of, alone in zip(found.values(), (slow, quick), strict=True):
        (expected,) = examine(alone).all_reduces.values()
        assert of.times.equals(expected.times)
    assert examine(make.calibration((1,))).all_reduces == {}


# --- shares and links ---


def test_one_worker_without_its_share_is_told():
    calibration = make.calibration()
    assert (examine(calibration).shares["error"].abs() < SHARE_WITHIN).all()
    busy = first_of(calibration, 4).busy
    starved = [*busy[:3], busy[3].model_copy(update={"cpu_s": 0.96 * busy[3].cpu_s})]
    errors = examine(changed(calibration, busy=starved)).shares.set_index("nodes")["error"]
    assert errors[4] == pytest.approx(-0.04)
    assert (errors.drop(index=4).abs() < SHARE_WITHIN).all()


def test_the_rate_of_a_link_is_beside_what_headers_leave():
    links = examine(make.calibration()).links
    assert len(links) == 2
    assert links["error"].tolist() == pytest.approx([0, 0], abs=1e-9)
    assert (links["expected_bit_s"] < links["configured_bit_s"]).all()


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
