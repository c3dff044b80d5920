"""How long a silent peer is waited for: a slow step of a slow node does not count as stuck."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import make_records as make
from nodewise.data import Dataset
from nodewise.measure import worker
from nodewise.measure.task import Task
from nodewise.models.training import Recipe


@pytest.mark.parametrize(("limit_s", "patience_s"), [(60, 60), (900, 180), (7200, 1440)])
def test_a_peer_may_be_silent_for_as_long_as_a_step_of_a_cell_that_ends_in_time(
    limit_s, patience_s
):
    cell = make.cell(n=2, time_limit_s=limit_s)
    recipe, cluster = Recipe(build=None), SimpleNamespace(addresses=list)
    x = np.zeros((640, 4), np.float32)
    data = Dataset(None, (x, x), None)
    job = worker._job(Task(cell, cluster, Path("manifest.json"), None), data, recipe, 1)
    assert job.patience_s == patience_s
