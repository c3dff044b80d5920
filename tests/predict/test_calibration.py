"""Evaluation of calibrations: true values are recovered, and schemas hold."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import make_calibration as make
from mistakes import user_error
from nodewise.core.schema import json_text
from nodewise.predict.known_links import fit_rings
from nodewise.results.calibration import read_calibration

# --- the law ---


@given(
    software=st.just(0.0) | st.floats(1e-4, 2e-2),
    latency=st.floats(5e-4, 2e-3),
    # The smallest payload shows the cost of messages, the largest the rate of the link.
    bandwidth=st.floats(1e7, 1e9),
)
@example(software=0.02, latency=0.002, bandwidth=6.97e8)
def test_exact_times_give_software_latency_and_bandwidth_back(software, latency, bandwidth):
    _, law = fit_rings(make.calibration(law=(software, latency, 1 / bandwidth)))
    found = {name: law.value(name, "") for name, _ in law.coefficients}
    assert found["latency_s"] == pytest.approx(make.SHARE * latency, rel=1e-2)
    slack = make.SHARE * latency * 1e-2
    assert found["software_s"] == pytest.approx(make.SHARE * software, rel=1e-2, abs=slack)
    assert found["seconds_per_byte"] == pytest.approx(make.SHARE / bandwidth, rel=1e-2)


def test_only_rings_are_examined():
    rings, direct = make.calibration(noise=0.02), make.calibration(collectives=("direct",))
    both = [
        one.model_copy(update={"all_reduces": one.all_reduces + other.all_reduces})
        for one, other in zip(rings.launches, direct.launches, strict=True)
    ]
    times, _ = fit_rings(rings.model_copy(update={"launches": both}))
    assert times.equals(fit_rings(rings)[0])
    assert fit_rings(direct) is None and fit_rings(make.calibration((1,))) is None


# --- the file ---


def test_a_file_that_is_no_calibration_gives_one_line(tmp_path):
    path = tmp_path / "calibration.json"
    text = json_text(make.without_launches("failed", "x"))
    path.write_text(text.replace('"failed"', '"ok"'))
    assert "status ok needs launches" in user_error(read_calibration, path)
