"""Calibrations: the times of their all-reduces, and their schema."""

import pytest

import make_calibration as make
from mistakes import user_error
from nodewise.core.schema import json_text
from nodewise.results.calibration import read_calibration, ring_times


def test_the_times_of_a_ring_are_medians_of_launches_in_the_node_s_own_time():
    rings = make.calibration(repeats=3, noise=0.02)
    direct = make.calibration(collectives=("direct",))
    both = [
        one.model_copy(update={"all_reduces": one.all_reduces + other.all_reduces})
        for one, other in zip(rings.launches[:16], direct.launches, strict=True)
    ]
    times = ring_times(rings)
    mixed = rings.model_copy(update={"launches": [*both, *rings.launches[16:]]})
    assert times == ring_times(mixed) and not ring_times(make.calibration((1,)))
    (of_two,) = [row for row in times if (row["nodes"], row["payload_bytes"]) == (2, 64_000_000)]
    assert of_two["sent_bytes"] == 64e6
    own_s = make.SHARE * make.SECONDS_PER_BYTE * 64e6
    assert of_two["seconds"] == pytest.approx(own_s, rel=0.04)


# --- the file ---


def test_a_file_that_is_no_calibration_gives_one_line(tmp_path):
    path = tmp_path / "calibration.json"
    text = json_text(make.without_launches("failed", "x"))
    path.write_text(text.replace('"failed"', '"ok"'))
    assert "status ok needs launches" in user_error(read_calibration, path)
