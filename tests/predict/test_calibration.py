"""Evaluation of calibrations: true values are recovered, faults are reported, schemas hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import make_calibration as make
from nodewise.core.errors import UserError
from nodewise.core.schema import json_text
from nodewise.predict.calibration import AllReduces, examine
from nodewise.report.figures import ALL_REDUCES, draw_figures
from nodewise.report.figures.calibration import all_reduce_times
from nodewise.results.calibration import Calibration, Launch, read_calibration

COEFFICIENTS = ("software_s", "latency_s", "bandwidth_bytes_per_s")


def ring(calibration: Calibration) -> AllReduces:
    return examine(calibration).all_reduces["ring"]


def wall(found: AllReduces):
    """Return s, α and 1/β in wall time."""
    return found.coefficients.set_index("clock").loc["wall"]


def first_of(calibration: Calibration, nodes: int) -> Launch:
    return next(launch for launch in calibration.launches if launch.nodes == nodes)


def changed(calibration: Calibration, **of_launch) -> Calibration:
    """Return the calibration with changes in its first launch of four nodes."""
    old = first_of(calibration, 4)
    new = old.model_copy(update=of_launch)
    launches = [new if launch is old else launch for launch in calibration.launches]
    return calibration.model_copy(update={"launches": launches})


def slower(launch: Launch, factor: float) -> Launch:
    blocks = [
        block.model_copy(update={"seconds": factor * block.seconds}) for block in launch.all_reduces
    ]
    return launch.model_copy(update={"all_reduces": blocks})


# --- the law ---


@given(
    software=st.just(0.0) | st.floats(1e-4, 2e-2),
    latency=st.floats(5e-4, 2e-3),
    # The smallest payload shows the cost of messages, the largest the rate of the link.
    bandwidth=st.floats(1e7, 1e9),
)
def test_exact_times_give_software_latency_and_bandwidth_back(software, latency, bandwidth):
    found = ring(make.calibration(law=(software, latency, 1 / bandwidth)))
    row = wall(found)
    assert row["latency_s"] == pytest.approx(latency, rel=1e-4)
    assert row["software_s"] == pytest.approx(software, rel=1e-4, abs=latency * 1e-4)
    assert row["bandwidth_bytes_per_s"] == pytest.approx(bandwidth, rel=1e-4)
    assert found.predictions["error"].max() < 1e-4


@pytest.mark.slow
def test_noise_widens_the_intervals_and_they_hold_the_truth():
    truth = {
        "software_s": make.SOFTWARE_S,
        "latency_s": make.LATENCY_S,
        "bandwidth_bytes_per_s": 1 / make.SECONDS_PER_BYTE,
    }
    held, widths = [], []
    for seed in range(20):
        row = wall(ring(make.calibration(noise=0.05, repeats=3, seed=seed)))
        held += [row[f"{name}_low"] <= truth[name] <= row[f"{name}_high"] for name in truth]
        widths.append(row["latency_s_high"] - row["latency_s_low"])
    calm = wall(ring(make.calibration(noise=0.001, repeats=3)))
    assert np.mean(held) > 0.8  # 0.9 minus 2.6 standard errors of 60 trials
    assert calm["latency_s_high"] - calm["latency_s_low"] < np.median(widths) / 10


def test_intervals_of_observed_points_hold_the_truth():
    exact = ring(make.calibration()).times
    true_s = exact.loc[exact["role"] == "observed", "seconds"].to_numpy()
    held = []
    for seed in range(8):
        times = ring(make.calibration(noise=0.05, seed=seed)).times
        seen = times[times["role"] == "observed"]
        held += ((seen["low"] <= true_s) & (true_s <= seen["high"])).tolist()
    assert 0.85 < np.mean(held) < 0.95  # two launches of each point


def test_one_payload_is_both_the_smallest_and_the_largest():
    row = wall(ring(make.calibration(payloads=(4_000_000,))))
    assert np.isfinite([row["latency_s"], row["bandwidth_bytes_per_s"]]).all()


def test_own_time_is_wall_time_by_the_share():
    rows = ring(make.calibration()).coefficients.set_index("clock")
    own, on_the_wall = rows.loc["the node's own"], rows.loc["wall"]
    for name, factor in zip(COEFFICIENTS, (make.SHARE, make.SHARE, 1 / make.SHARE), strict=True):
        assert own[name] == pytest.approx(factor * on_the_wall[name])


def test_two_node_counts_cannot_tell_software_from_latency_and_predict_nothing():
    found = ring(make.calibration((1, 2)))
    row = wall(found)
    both = row["software_s"] + 2 * row["latency_s"]
    assert both == pytest.approx(make.SOFTWARE_S + 2 * make.LATENCY_S, rel=0.01)
    # Each of them may be anything between nothing and all of the sum.
    for name in ("software_s", "latency_s"):
        assert row[f"{name}_high"] > 3 * max(row[f"{name}_low"], 1e-9)
    assert found.trial is None and found.predictions.empty
    assert ring(make.calibration((1, 2, 3))).trial is None


@pytest.mark.parametrize(
    ("most", "fitted_to"), [(4, (2, 3)), (6, (2, 3)), (8, (2, 3, 4)), (5, (2, 3, 4))]
)
def test_the_most_nodes_are_predicted_from_at_most_half_as_many(most, fitted_to):
    found = ring(make.calibration(tuple(range(1, most + 1))))
    assert (found.trial.predicted_for, found.trial.fitted_to) == (most, fitted_to)
    assert set(found.predictions["nodes"]) == {most}


def test_a_prediction_does_not_see_what_it_predicts():
    calibration = make.calibration()
    honest = ring(calibration)
    launches = [slower(one, 2) if one.nodes == 8 else one for one in calibration.launches]
    found = ring(calibration.model_copy(update={"launches": launches}))
    assert found.predictions["predicted_s"].tolist() == pytest.approx(
        honest.predictions["predicted_s"].tolist()
    )
    assert found.predictions["error"].tolist() == pytest.approx([0.5] * 6, rel=1e-3)
    assert set(found.predictions["verdict"]) == {"missed"}
    assert set(honest.predictions["verdict"]) == {"holds"}


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
        assert of.predictions.equals(expected.predictions)
        assert of.traffic.equals(expected.traffic)
    assert examine(make.calibration((1,))).all_reduces == {}


# --- verdicts ---


def test_one_worker_without_its_share_is_told():
    calibration = make.calibration()
    assert set(examine(calibration).shares["verdict"]) == {"holds"}
    busy = first_of(calibration, 4).busy
    starved = [*busy[:3], busy[3].model_copy(update={"cpu_s": 0.96 * busy[3].cpu_s})]
    shares = examine(changed(calibration, busy=starved)).shares.set_index("nodes")
    assert shares.loc[4, "verdict"] == "missed"
    assert shares.loc[4, "error"] == pytest.approx(-0.04)
    assert set(shares.drop(index=4)["verdict"]) == {"holds"}


def test_bytes_are_judged_where_framing_is_small():
    traffic = ring(make.calibration()).traffic
    small = traffic["payload_bytes"] < 512_000
    assert set(traffic.loc[small, "verdict"]) == {"not judged"}
    assert set(traffic.loc[~small, "verdict"]) == {"holds"}
    calibration = make.calibration()
    twice = [
        block.model_copy(update={"bytes_sent": [*block.bytes_sent[:3], 2 * block.bytes_sent[3]]})
        for block in first_of(calibration, 4).all_reduces
    ]
    found = ring(changed(calibration, all_reduces=twice)).traffic
    assert set(found.loc[(found["nodes"] == 4) & ~small, "verdict"]) == {"missed"}


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


# --- the figure ---


def drawn(calibration):
    return [*draw_figures({ALL_REDUCES: all_reduce_times([calibration])}, {}, {})]


def test_the_figure_draws_every_point_and_tells_the_ends_in_words():
    (figure,) = drawn(make.calibration(noise=0.02))
    roles = figure.data["role"].value_counts()
    assert roles["observed"] == 7 * 6 and roles["held out"] == 6
    assert figure.kinds == ["emulated", "fitted", "predicted"]
    assert "4.00 kB" in figure.alt and "64.0 MB" in figure.alt and "8 nodes" in figure.alt
    observed = figure.data[figure.data["role"] == "observed"]
    assert observed["seconds"].tolist() == pytest.approx((make.SHARE * observed["wall_s"]).tolist())


def test_each_collective_has_a_figure():
    figures = drawn(make.calibration(collectives=("ring", "direct")))
    assert [figure.of["collective"] for figure in figures] == ["direct", "ring"]
    assert len({figure.name for figure in figures} | {figure.title for figure in figures}) == 4


def test_without_predictions_or_launches_there_is_less_to_draw():
    (figure,) = drawn(make.calibration((1, 2)))
    assert figure.kinds == ["emulated", "fitted"] and "Predicted" not in figure.alt
    assert drawn(make.calibration((1,))) == []
    assert drawn(make.without_launches("refused", "no cgroup")) == []
