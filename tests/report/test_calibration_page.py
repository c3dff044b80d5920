"""The calibration page shows verdicts and refusals, and every number with its kind."""

import pytest

import make_calibration as make
import make_records
from nodewise.cluster.kinds.ssh import Ssh
from nodewise.core.errors import UserError
from nodewise.core.schema import json_text
from nodewise.report.addresses import calibration_file
from nodewise.results.columns import PARTS
from rendering import Texts, draw_all, render

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    make_records.write_study(folder, [make_records.record(make_records.cell())])
    return folder


def page_of(study, *calibrations) -> str:
    """Render the study with calibrations; return the calibration page as Markdown."""
    paths = []
    for calibration in calibrations:
        paths.append(study / f"{len(paths)}.json")
        paths[-1].write_text(json_text(calibration))
    draw_all(study, calibration_paths=paths)
    docs = render(study, calibration_paths=paths)
    return (docs / "calibration.md").read_text()


def test_a_calibration_fills_the_page(study):
    page = page_of(study, make.calibration(noise=0.01, collectives=("ring", "direct")))
    assert page.count("<figure") == 2
    for heading in ("share of a core", "rate of a link", "ring", "sockets alone"):
        assert f"{heading}\n" in Texts(page).text
    assert page.count("nw-formula") == 1
    assert "It was." in page and "**It was not" not in page
    assert (study / "docs" / calibration_file(make.calibration())).is_file()
    assert "Mbit&#47;s" in page


def test_the_slowest_link_between_hosts_is_named(study):
    hosts = Ssh.model_validate({"kind": "ssh", "hosts": ["a", "b", "c"], "name": "three hosts"})
    streams = [
        make.stream("node1", "node2"),
        make.stream("node1", "node3", 10.0),
        make.stream("node2", "node3"),
    ]
    made = make.calibration((2, 3))
    launches = [one.model_copy(update={"transfer": None}) for one in made.launches]
    changes = {"cluster": hosts, "kind": "measured", "streams": streams, "launches": launches}
    page = Texts(page_of(study, made.model_copy(update=changes))).plain
    assert "The slowest link, between node1 and node3, gives 9.56 Mbit/s" in page


def test_the_calibrations_of_one_study_on_two_machines_stand_apart(study):
    here = make.calibration()
    there = here.provenance.model_copy(update={"cpu": "another <one>"})
    page = page_of(study, here, here.model_copy(update={"provenance": there}))
    assert page.count("<figure") == 2
    assert "on another &#60;one&#62;</span>" in page
    assert len(list((study / "docs").glob("calibration/*.json"))) == 2


def test_two_calibrations_of_one_study_are_a_mistake(study):
    with pytest.raises(UserError, match="duplicate calibration of study study on"):
        page_of(study, make.calibration(), make.calibration())


@pytest.mark.parametrize("status", ["refused", "failed"])
def test_a_calibration_without_result_says_why(study, status):
    page = page_of(study, make.without_launches(status, "no <cgroup> here"))
    assert f"{status}: " in page and "no &#60;cgroup&#62; here" in page
    assert "<b>another</b>" not in page
    assert "share of a core, to within" not in page


@pytest.mark.parametrize(("around_us", "told"), [(1.02, "1 of 1 cells"), (1.2, "0 of 1 cells")])
def test_how_well_parts_add_up_to_their_step_is_told(tmp_path, around_us, told):
    record = make_records.record(make_records.cell())
    workers = []
    for worker in record.result.workers:
        parts = zip(*(getattr(worker.split, f"{part}_us") for part in PARTS), strict=True)
        step_us = [round(sum(part) * around_us) for part in parts]
        split = worker.split.model_copy(update={"step_us": step_us})
        workers.append(worker.model_copy(update={"split": split}))
    result = record.result.model_copy(update={"workers": workers})
    make_records.write_study(tmp_path, [record.model_copy(update={"result": result})])
    assert told in Texts(page_of(tmp_path)).text
