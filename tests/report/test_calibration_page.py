"""The calibration page shows verdicts and refusals, and every number with its kind."""

import pytest

import make_calibration as make
import make_records
from nodewise.cluster.kinds.ssh import Ssh
from nodewise.core.errors import UserError
from nodewise.core.schema import json_text
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
    paths = []
    for made in (
        here,
        here.model_copy(update={"provenance": there}),
        of_hosts(),
        refused.model_copy(update={"study": "refused"}),
    ):
        paths.append(folder / f"{len(paths)}.json")
        paths[-1].write_text(json_text(made))
    return render(folder, calibration_paths=paths)


def test_each_calibration_has_its_part_of_the_page_and_its_file(docs):
    page = (docs / "calibration.md").read_text()
    assert page.count("## Nodes of ") == 4
    assert page.count("<figure") == 2 + 2 + 1  # a chart of each collective
    assert len(list((docs / "calibration").glob("*.json"))) == 4
    text = Texts(page).plain
    for heading in ("share of a core", "rate of a link", "ring", "sockets alone"):
        assert f"{heading}\n" in text
    assert "The slowest link, between node1 and node3, gives 9.56 Mbit/s" in text
    assert "on another &#60;one&#62;</span>" in page
    assert "refused: " in page and "no &#60;cgroup&#62; here" in page
    assert "<b>another</b>" not in page


def test_two_calibrations_of_one_study_are_a_mistake(tmp_path):
    for name in ("one", "other"):
        (tmp_path / f"{name}.json").write_text(json_text(make.calibration()))
    make_records.write_study(tmp_path, [])
    with pytest.raises(UserError, match="duplicate calibration of study study on"):
        render(tmp_path, calibration_paths=[*tmp_path.glob("*.json")])
