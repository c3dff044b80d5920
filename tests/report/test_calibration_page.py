"""The calibration page shows verdicts and refusals, and every number with its kind."""

import re

import numpy as np
import pytest

import make_calibration as make
import make_records
from mistakes import user_error
from nodewise.cluster.kinds.ssh import Ssh
from nodewise.core.schema import json_text
from nodewise.predict.known_links import PAYLOAD_SHARE
from nodewise.report.pages.calibration import against_wire, verdict
from nodewise.results.calibration import Transfer
from rendering import Texts, render

pytestmark = pytest.mark.slow


def of_hosts():
    """Return a calibration of three hosts, of which two have a slow link between them."""
    hosts = Ssh.model_validate({"kind": "ssh", "hosts": ["a", "b", "c"], "name": "three hosts"})
    rates = {("node1", "node2"): 100.0, ("node1", "node3"): 10.0, ("node2", "node3"): 100.0}
    streams = [make.stream(*ends, rate) for ends, rate in rates.items()]
    made = make.calibration((2, 3))
    launches = [one.model_copy(update={"transfer": None}) for one in made.launches]
    changes = {"cluster": hosts, "kind": "measured", "streams": streams, "launches": launches}
    return made.model_copy(update=changes | {"study": "hosts"})


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    """Return the pages of a study with calibrations of two machines, of hosts, and one refused."""
    folder = tmp_path_factory.mktemp("study")
    make_records.write_study(folder, [make_records.record(make_records.cell())])
    here = make.calibration(noise=0.01, collectives=("ring", "direct"))
    there = here.provenance.model_copy(update={"cpu": "another <one>"})
    refused = make.without_launches("refused", "no <cgroup> here")
    made = [here, here.model_copy(update={"provenance": there}), of_hosts()]
    made.append(refused.model_copy(update={"study": "refused"}))
    paths = [folder / f"{number}.json" for number in range(len(made))]
    for path, one in zip(paths, made, strict=True):
        path.write_text(json_text(one))
    return render(folder, calibration_paths=paths)


def test_each_calibration_has_its_part_of_the_page_and_its_file(docs):
    page = (docs / "calibration.md").read_text()
    assert page.count(">JSON</a></td>") == 3  # besides the one that was refused
    assert len(list((docs / "calibration").glob("*.json"))) == 4
    text = Texts(page).plain
    assert "The slowest link of three hosts, between node1 and node3, gives 9.56 Mbit/s" in text
    assert "another &#60;one&#62;" in page
    assert "refused, " in page and "no &#60;cgroup&#62; here" in page
    assert "<b>another</b>" not in page


def test_large_all_reduces_are_compared_with_the_bytes_of_a_ring_on_the_link():
    times = np.array(against_wire(make.calibration()))
    # two to eight nodes, 4 to 64 MB: the bytes take longer than the messages
    assert len(times) == 7 * 3
    bytes_alone_s = 8 / (100e6 * PAYLOAD_SHARE)
    assert times == pytest.approx(make.SECONDS_PER_BYTE / bytes_alone_s)


def test_the_first_sentences_are_about_the_largest_deviations(docs):
    lead = Texts((docs / "calibration.md").read_text().partition("## What")[0]).plain
    assert "Yes: nodes get their share of a core within 0 %" in lead  # as `make` writes it
    longer = make.SECONDS_PER_BYTE * 100e6 * PAYLOAD_SHARE / 8 - 1
    ends = re.search(r"take (\d+) % to (\d+) % longer", lead).groups()
    assert all(int(end) == pytest.approx(100 * longer, abs=3) for end in ends)  # noise of 1 %


def test_one_worker_without_its_share_or_a_slow_link_is_told():
    made = make.calibration()
    last = made.launches[-1]
    starved = [last.busy[0].model_copy(update={"cpu_s": 0.96 * last.busy[0].cpu_s}), *last.busy[1:]]
    slow = Transfer.model_validate(make.transfer(90.0))
    launch = last.model_copy(update={"busy": starved, "transfer": slow})
    changed = made.model_copy(update={"launches": [*made.launches[:-1], launch]})
    small = [one.model_copy(update={"all_reduces": one.all_reduces[:2]}) for one in made.launches]
    for examined, expected in (
        ([made], (True, "0\u00a0%", "0\u00a0%", 2)),
        ([made, changed], (False, "4\u00a0%", "10\u00a0%", 2)),
        ([made.model_copy(update={"launches": small})], (True, "0\u00a0%", "0\u00a0%", 0)),
        ([make.calibration((1,))], (True, "0\u00a0%", None, 0)),
    ):
        found = verdict(examined)
        assert (found["met"], found["share"], found["rate"], len(found["longer"])) == expected


def test_two_calibrations_of_one_study_are_a_mistake(tmp_path):
    for name in ("one", "other"):
        (tmp_path / f"{name}.json").write_text(json_text(make.calibration()))
    make_records.write_study(tmp_path, [])
    said = user_error(render, tmp_path, calibration_paths=[*tmp_path.glob("*.json")])
    assert "duplicate calibration of study study on" in said
