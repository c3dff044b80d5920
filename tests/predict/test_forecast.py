"""`nodewise forecast` predicts several nodes from one node and a link."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nodewise.cli import app
from nodewise.core.errors import UserError
from nodewise.predict.forecast import LINKS, parse_link
from nodewise.strategies.declaration import hidden_share

GIVEN = ("forecast", "--step-time", "0.1", "--payload", "4e7", "--batch", "64", "--json")


def run(*arguments):
    done = CliRunner().invoke(app, [*GIVEN, *arguments])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)


def test_a_step_is_that_of_one_node_and_the_bytes_over_the_link():
    one, four = run("--link", "1gbit", "--nodes", "1,4")
    assert (one["step_time_s"], one["speedup"]) == (0.1, 1)
    assert four["step_time_s"] == pytest.approx(0.1 + 1.5 * 4e7 / (125e6 * 0.956 * 0.93), rel=0.01)
    assert four["low"] < four["step_time_s"] < four["high"]


def test_quicker_links_are_quicker_and_a_rate_is_a_link():
    times = [run("--link", link, "--nodes", "8")[0]["step_time_s"] for link in LINKS]
    assert times[:4] == sorted(times[:4], reverse=True)
    assert parse_link("1000mbit") == LINKS["1gbit"]


def test_what_a_strategy_hides_is_taken_off_the_shorter_of_computing_and_sending():
    for payload in ("4e6", "4e7"):  # First sending takes less time than computing, then more.
        asked = ("--link", "1gbit", "--nodes", "4", "--payload", payload)
        (plain,) = run(*asked)
        shorter = min(0.1, plain["step_time_s"] - 0.1)
        for strategy in ("multi_worker_mirrored", "horovod", "custom_loop", "mpi"):
            hidden = hidden_share(strategy)
            (told,) = run(*asked, "--strategy", strategy)
            saved = plain["step_time_s"] - told["step_time_s"]
            assert saved == pytest.approx(hidden * shorter), strategy


def test_a_strategy_without_a_ring_is_answered_by_those_that_have_one():
    with pytest.raises(UserError, match="--strategy async_sgd: must be one of custom_loop, "):
        hidden_share("async_sgd")


CALIBRATION = "data/records/xeon-2-cores/study/calibration.json"


def test_a_calibrated_cluster_tells_its_link_and_hides_messages_behind_bytes():
    link = parse_link(CALIBRATION)
    assert link.bytes_per_s == pytest.approx(parse_link("500mbit").bytes_per_s, rel=0.1)
    one, two = run("--link", CALIBRATION, "--nodes", "1,2")
    assert one["step_time_s"] == 0.1
    assert two["step_time_s"] == pytest.approx(0.1 + 4e7 / (0.93 * link.bytes_per_s), rel=0.01)
    *_, small = run("--link", CALIBRATION, "--nodes", "1,4", "--payload", "100")
    assert small["step_time_s"] == pytest.approx(0.1 + link.call_s + 6 * link.latency_s)


def test_a_calibration_without_all_reduces_is_refused(tmp_path):
    content = json.loads(Path(CALIBRATION).read_text())
    for launch in content["launches"]:
        launch["all_reduces"] = []
    (tmp_path / "calibration.json").write_text(json.dumps(content))
    with pytest.raises(UserError, match="has no all-reduces"):
        parse_link(str(tmp_path / "calibration.json"))


def test_an_unknown_link_is_answered_by_those_that_are_known():
    with pytest.raises(UserError, match="--link wifi: must be one of 1gbit, 10gbit"):
        parse_link("wifi")


def test_a_link_that_is_another_file_is_not_advised_to_be_removed(tmp_path):
    (tmp_path / "fit.json").write_text('{"version": 2}')
    with pytest.raises(UserError, match=r"; --link needs a file of `nodewise calibrate`$"):
        parse_link(str(tmp_path / "fit.json"))


def test_one_node_has_no_interval_and_what_was_not_checked_is_marked_and_wider():
    one, eight, nine, many = run("--link", "1gbit", "--nodes", "1,8,9,64")
    assert (one["low"], one["high"]) == (0.1, 0.1)
    assert [row["kind"] for row in (one, eight, nine, many)] == [
        *("measured", "forecast", "extrapolated", "extrapolated")
    ]
    widths = [row["high"] / row["low"] for row in (eight, nine, many)]
    assert 1.3 * widths[0] < 1.3 * widths[1] < widths[2]
    assert all(row["low"] >= 0.1 for row in (eight, nine, many))


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--step-time", "inf", "--step-time inf: must be above 0 s, at most 1e+07 s"),
        ("--step-time", "0", "--step-time 0: must be above 0 s"),
        ("--step-time", "nan", "--step-time nan: must be above 0 s"),
        ("--payload", "1e300", "--payload 1e+300: must be from 0 to 1e+15 bytes"),
        ("--payload", "-1", "--payload -1: must be from 0"),
        ("--link", "0.0000001mbit", "--link 0.0000001mbit: must be one of"),
    ],
)
def test_a_number_that_means_nothing_is_one_line(option, value, said):
    done = CliRunner().invoke(app, [*GIVEN, "--link", "1gbit", option, value])
    assert isinstance(done.exception, UserError)
    assert str(done.exception).startswith(said)
