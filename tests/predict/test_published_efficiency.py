"""Users' efficiencies stand among published ones of the same kind."""

import pandas as pd
import pytest

import commands
from nodewise.predict.cluster_links import constants, read_link
from nodewise.predict.published_efficiency import standing


def test_published_ones_have_the_link_and_about_the_number_of_devices():
    _, found = standing(0.8, 16, between="100gbit-rdma", across=True)
    assert found["efficiency"].between(0, 1.2).all()
    assert set(found["link"]) == {"100gbit-rdma"}
    assert found["devices"].between(16 / 1.5, 16 * 1.5).all()
    assert found["efficiency"].is_monotonic_increasing
    _, inside = standing(0.8, 8, within="nvlink-bridge", across=False)
    assert set(inside["link"]) == {"nvlink-bridge"}
    assert inside["efficiency"].median() > found["efficiency"].median()


def test_links_are_named_as_users_write_them():
    for across, within, between in ((False, "pcie4-no-p2p", None), (True, None, "50gbit-tcp")):
        _, found = standing(0.8, 4, within=within, between=between, across=across)
        assert set(found["link"]) == {within or between}
    links = set(standing(0.8, 8)[1]["link"])
    for link in links - {""}:
        assert read_link("within" if link in constants()["within"] else "between", link)


def test_a_forecast_stands_among_those_of_its_link_unless_its_batch_or_examples_differ():
    asked = ("forecast", "--step-time", 0.2, "--batch", 64, "--parameters", 25e6, "--nodes", "1-8")
    named = [commands.run(*asked, link, "50gbit-tcp").stdout for link in ("--link", "--between")]
    assert named[0] == named[1] and "published ones" in named[0]
    for other in (("--global-batch", 64), ("--converges-like", "resnet")):
        assert "published ones" not in commands.run(*asked, "--link", "50gbit-tcp", *other).stdout


def test_nothing_is_said_without_published_ones():
    assert standing(0.8, 1) is None
    assert standing(0.8, 50_000) is None
    assert standing(0.8, 8, within="nvlink5", across=False) is None


@pytest.mark.parametrize(("four_s", "place"), [(0.11, "within"), (2.0, "below"), (0.09, "above")])
def test_fit_says_where_a_curve_stands(tmp_path, four_s, place):
    path = tmp_path / "mine.csv"
    table = pd.DataFrame({"curve": "mine", "nodes": [1, 2, 4], "batch_per_worker": 64})
    table.assign(step_time_s=[0.1, 0.1, four_s]).to_csv(path, index=False)
    said = commands.run("fit", path, "-o", tmp_path / "fit.json").stdout
    share = f"{round(100 * 0.1 / four_s)} %"
    (line,) = [line for line in said.splitlines() if line.startswith(f"mine: {share} on 4")]
    assert f" is {place} " in line
    assert said.partition(line)[2].split()[0] == "Published"
