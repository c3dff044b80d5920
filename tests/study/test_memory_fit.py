"""A batch that does not fit the memory of its nodes is reported before anything starts."""

import pytest

import make_architectures as make_models
import make_records as make
from nodewise.measure import step_memory
from nodewise.models import facts
from nodewise.results.model_description import Memory
from nodewise.study import memory_fit

GB = 10**9
SIZES = dict.fromkeys(("weights_bytes", "gradients_bytes", "optimizer_bytes"), 1)


@pytest.fixture
def large(tmp_path, monkeypatch):
    """Return a user's model whose process takes 1 GB, plus 10 MB per example."""
    memory = Memory(**SIZES, fixed_bytes=GB, bytes_per_example=GB // 100, measured={4: GB})
    monkeypatch.setattr(facts, "OWN_DESCRIPTIONS", tmp_path)
    own = {"model": "large", "build": "models/templates/own_model.py:build", "load": "mine:load"}
    name = facts.own_description(make.cell(**own)).stem
    described = make_models.fashion_cnn().model_copy(update={"model": name, "memory": memory})
    make_models.write([described], tmp_path)
    return own


def test_a_worker_takes_what_its_batch_takes(large):
    together = make.cell(**large, batch=100, n=2, strategy="mirrored", one_process=True)
    for cell, needed in ((make.cell(**large, batch=100), 2 * GB), (together, 3 * GB)):
        assert memory_fit.misfit(cell, needed, 1) is None
        assert f"{needed / GB:.1f} GB" in memory_fit.misfit(cell, needed - 1, 1)


def test_nothing_is_said_of_a_model_that_nobody_described_or_of_a_part_of_one(large):
    assert memory_fit.misfit(make.cell(model="unknown"), 1, 1) is None
    assert memory_fit.misfit(make.cell(**large, strategy="model_parallel", n=2), 1, 1) is None


def test_workers_on_one_machine_share_its_memory_and_tensorflow(large):
    cell = make.cell(**large, batch=100, n=4)
    needed = memory_fit.SHARED_BYTES + 4 * (2 * GB - memory_fit.SHARED_BYTES)
    assert memory_fit.misfit(cell, needed, 4) is None
    assert "2.0 GB on each of 4 nodes" in memory_fit.misfit(cell, needed - 1, 4)
    assert memory_fit.misfit(cell, 2 * GB, 1) is None  # a worker of its own host


def test_the_memory_of_training_is_a_line_through_peaks_until_one_is_far_above_noise(monkeypatch):
    def train(job, cell, manifest):
        return SIZES | {"peak_bytes": GB + 3_000_000 * cell.batch}

    monkeypatch.setattr(step_memory, "run_fresh", train)
    found = step_memory.measure_memory(make.cell(), None)
    assert (found.fixed_bytes, found.bytes_per_example) == pytest.approx((GB, 3_000_000))
    assert [*found.measured] == [4, 16, 64, 256]  # 768 MB above the least
