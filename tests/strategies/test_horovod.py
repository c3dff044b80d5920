"""Cells that train with Horovod, started by the real command, on local and on emulated nodes."""

import pytest

from make_horovod import make_horovod
from nodewise.strategies.horovod import build as horovod_build
from rank_cells import (
    assert_a_killed_worker_is_named,
    assert_sent_as_in_a_ring,
    finish,
    project_of,
    start,
)
from traces import needs_emulated_nodes

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """Return a copy of the project with its dataset prepared, without Horovod."""
    return project_of("horovod", tmp_path_factory.mktemp("horovod"))


@pytest.fixture
def project(without):
    """Yield the same copy with Horovod."""
    make_horovod()
    link = without / horovod_build.FOLDER
    link.symlink_to(horovod_build.FOLDER.absolute())
    yield without
    link.unlink()


@pytest.mark.parametrize("nodes", ["local", "emulated"])
def test_without_horovod_a_cell_is_refused_and_says_what_would_permit_it(without, nodes):
    record = finish(without, nodes, start(without, "horovod", nodes))
    assert record.status == "refused"
    assert record.failure.reason == (
        "Horovod is not built. To allow it, run: nodewise build-horovod --out results/horovod"
    )
    assert not (without / "logs").exists()  # No worker was started.
    assert "horovod" not in record.provenance.versions


@pytest.mark.parametrize("nodes", ["local", pytest.param("emulated", marks=needs_emulated_nodes)])
def test_it_trains_sends_what_a_ring_sends_and_tells_what_it_is(project, nodes):
    record = finish(project, nodes, start(project, "horovod", nodes))
    assert_sent_as_in_a_ring(record)
    assert record.provenance.versions["horovod"] == "0.28.1+nodewise"


@pytest.mark.alone
@needs_emulated_nodes
def test_a_killed_worker_ends_its_cell_within_15_s_and_is_named(project):
    assert_a_killed_worker_is_named(project, "horovod")
