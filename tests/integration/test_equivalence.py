"""A synchronous strategy on n workers trains exactly like one process on the same global batch.

Ten steps of Fashion CNN from the same weights; 50 examples a step, so that two workers have even
and three uneven parts. Allowed is float32 rounding: 1e-5 of the largest weight.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from make_horovod import make_horovod
from nodewise.strategies import STRATEGIES

SCRIPT = Path(__file__).with_name("ten_steps.py")
TOLERANCE = 1e-5
FORMS = ("fused", "split")


def ten_steps(out: Path, strategy: str, nodes: int, optimizer: str, **options):
    """Return form -> weights of each worker after ten steps."""
    if strategy == "horovod":
        make_horovod()
    out.mkdir()
    command = [sys.executable, SCRIPT, strategy, str(nodes), optimizer, out, json.dumps(options)]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=180)
    assert done.returncode == 0, done.stderr[-2000:]
    return {form: [weights(file) for file in sorted(out.glob(f"{form}~*.npz"))] for form in FORMS}


def weights(path: Path):
    with np.load(path) as arrays:
        return [arrays[key] for key in arrays.files]


def largest_difference(mine, reference):
    """Return the largest difference, in units of the largest weight."""
    scale = max(np.abs(array).max() for array in reference)
    return max(np.abs(a - b).max() for a, b in zip(mine, reference, strict=True)) / scale


@pytest.fixture(scope="module", params=["sgd_momentum", "adam"])
def optimizer(request):
    return request.param


@pytest.fixture(scope="module")
def one_process(optimizer, tmp_path_factory):
    return ten_steps(tmp_path_factory.mktemp("one") / "out", "single", 1, optimizer)


SYNCHRONOUS = [
    ("compressed_sgd", {"method": "top_k", "share": 1.0, "values": "float32"}),
    ("custom_loop", {}),
    ("horovod", {}),
    ("mirrored", {}),
    ("model_parallel", {}),
    ("model_parallel", {"micro_batches": 4}),
    ("mpi", {}),
    ("multi_worker_mirrored", {}),
    ("multi_worker_mirrored", {"collective": "star"}),
    ("tensor_parallel", {}),
]
CASES = [
    *((strategy, options, nodes) for strategy, options in SYNCHRONOUS for nodes in (2, 3)),
    ("hybrid", {"groups": 2}, 2),
    ("hybrid", {"groups": 3, "micro_batches": 2}, 3),
    ("hybrid", {"groups": 2, "micro_batches": 2}, 4),
]


def label(value):
    if isinstance(value, dict):
        return "-".join(f"{name}={chosen}" for name, chosen in value.items()) or "default"
    return str(value)


@pytest.mark.parametrize(("strategy", "options", "nodes"), CASES, ids=label)
def test_n_workers_equal_one_process(tmp_path, one_process, optimizer, strategy, options, nodes):
    trained = ten_steps(tmp_path / "out", strategy, nodes, optimizer, **options)
    assert len(trained["fused"]) == (1 if STRATEGIES[strategy].one_process else nodes)
    for form in FORMS:
        for worker in trained[form]:
            assert largest_difference(worker, one_process["fused"][0]) <= TOLERANCE
            assert largest_difference(worker, trained[form][0]) == 0
    seen = [json.loads(file.read_text()) for file in (tmp_path / "out").glob("barrier~*.json")]
    came, left = zip(*seen, strict=True)
    assert max(came) <= min(left)  # nobody passes the barrier before the last is there


def test_the_split_form_of_one_process_is_its_fused_form(one_process):
    assert largest_difference(one_process["split"][0], one_process["fused"][0]) <= TOLERANCE


def test_training_moves_the_weights(tmp_path, one_process, optimizer):
    """Equality would be worth nothing if nobody learnt anything."""
    still = ten_steps(tmp_path / "out", "single", 1, f"{optimizer}-still")
    assert largest_difference(still["fused"][0], one_process["fused"][0]) > 100 * TOLERANCE
