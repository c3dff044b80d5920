"""Models of any kind train with any strategy as in one process, or are refused in one line.

`kinds_check` says what must be equal. In `make test-all` each kind meets one process and one
strategy. `make test-matrix` tests every kind with all strategies on two and three workers.
"""

import os
from pathlib import Path

import pytest
from kinds_check import NATIVE, SERVED, SINGLE, WITHIN_S, Results, assert_right, case_of, verdicts

import projects
from kinds import KINDS, groups
from nodewise.results.record import read_record

OTHERS = ("custom_loop", "mpi", "horovod", "compressed_sgd", "parameter_averaging")
MATRIX = [
    case_of(strategy, nodes, split=nodes < 3)
    for strategy in (*OTHERS, *SERVED, *NATIVE)
    for nodes in ((1, 2, 3) if strategy in SERVED else (2, 3))
]
GROUPS = groups()

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def results(tmp_path_factory, run_job):
    """Return what trains kinds of models and returns their results, see `Results`."""
    return Results(tmp_path_factory, run_job)


@pytest.mark.timeout(WITHIN_S)
def test_one_process_is_fit(results):
    assert_right(verdicts(results, SINGLE, KINDS), SINGLE)


@pytest.mark.parametrize(("strategy", "kinds"), GROUPS.items(), ids=GROUPS)
def test_two_workers_are_one_process(results, strategy, kinds):
    case = case_of(strategy, 2)
    assert_right(verdicts(results, case, kinds), case)


FILE = """
import kinds

def build():
    return kinds.builder({kind!r})({batch})

def load():
    import tensorflow as tf
    train, _ = kinds.load({kind!r})
    return train, tf.nest.map_structure(lambda array: array[:21], train) if {tested} else None
"""


# `fit` cannot test a GAN or a stateful model, either
@pytest.mark.parametrize(
    ("kind", "tested"),
    [("gan", False), ("ragged", True), ("stateful", False), ("two_inputs", True)],
)
def test_a_kind_is_measured_from_a_user_s_file_to_a_record(tmp_path, kind, tested):
    batch = 6 if kind == "stateful" else ""
    (tmp_path / "mine.py").write_text(FILE.format(kind=kind, tested=tested, batch=batch))
    own = "--model mine.py:build --dataset mine.py:load --out record.json"
    how = f"--strategy custom_loop --nodes 2 --batch 6 --epochs 1 {own}"
    path = os.pathsep.join(str(Path(folder).absolute()) for folder in ("workflow", "tests"))
    run = projects.start(tmp_path, "nodewise", "measure", *how.split(), PYTHONPATH=path)
    projects.finish(run)
    record = read_record(tmp_path / "record.json")
    assert (record.status, record.result.test is not None) == ("ok", tested)


@pytest.mark.matrix
@pytest.mark.timeout(2 * WITHIN_S)
@pytest.mark.parametrize("case", MATRIX, ids=lambda case: f"{case.strategy}-{case.nodes}")
def test_every_strategy_is_one_process(results, case):
    assert_right(verdicts(results, case, KINDS), case)
