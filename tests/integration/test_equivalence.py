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
OPTIMIZERS = ("sgd_momentum", "adam")
CLIPPED = "sgd_clipped"


def ten_steps(out: Path, strategy: str, options: dict[str, object], *cases: tuple[int, str]):
    """Return, for each case of nodes and optimizer: form -> weights of each worker."""
    if strategy == "horovod":
        make_horovod()
    told = [str(word) for case in cases for word in case]
    command = [sys.executable, SCRIPT, strategy, json.dumps(options), out, *told]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    folders = {case: out / "-".join(map(str, case)) for case in cases}
    return {case: {form: saved(folder, form) for form in FORMS} for case, folder in folders.items()}


def saved(folder: Path, form: str):
    return [weights(file) for file in sorted(folder.glob(f"{form}~*.npz"))]


def weights(path: Path):
    with np.load(path) as arrays:
        return [arrays[key] for key in arrays.files]


def largest_difference(mine, reference):
    """Return the largest difference, in units of the largest weight."""
    scale = max(np.abs(array).max() for array in reference)
    return max(np.abs(a - b).max() for a, b in zip(mine, reference, strict=True)) / scale


@pytest.fixture(scope="module")
def one_process(tmp_path_factory):
    """What one process trains: optimizer -> form -> weights, as a list of one."""
    still = [f"{optimizer}-still" for optimizer in OPTIMIZERS]
    optimizers = [*OPTIMIZERS, *still, CLIPPED]
    cases = [(1, optimizer) for optimizer in optimizers]
    trained = ten_steps(tmp_path_factory.mktemp("one"), "single", {}, *cases)
    return {optimizer: forms for (_, optimizer), forms in trained.items()}


SYNCHRONOUS = [
    ("compressed_sgd", {"method": "top_k", "share": 1.0, "values": "float32"}, (2, 3)),
    ("custom_loop", {}, (2, 3)),
    ("horovod", {}, (2, 3)),
    ("hybrid", {"groups": 2, "micro_batches": 2}, (2, 4)),
    ("hybrid", {"groups": 3, "micro_batches": 2}, (3,)),
    ("mirrored", {}, (2, 3)),
    ("model_parallel", {}, (2, 3)),
    ("model_parallel", {"micro_batches": 4}, (2, 3)),
    ("mpi", {}, (2, 3)),
    ("multi_worker_mirrored", {}, (1, 2, 3)),
    ("multi_worker_mirrored", {"collective": "star"}, (2, 3)),
    ("split_dense", {}, (2, 3)),
    ("tensor_parallel", {}, (2, 3)),
]


def label(value):
    if isinstance(value, dict):
        return "-".join(f"{name}={chosen}" for name, chosen in value.items()) or "default"
    return str(value)


@pytest.mark.parametrize(("strategy", "options", "counts"), SYNCHRONOUS, ids=label)
def test_n_workers_equal_one_process(tmp_path, one_process, strategy, options, counts):
    cases = [(nodes, optimizer) for nodes in counts for optimizer in OPTIMIZERS]
    for (nodes, optimizer), trained in ten_steps(tmp_path, strategy, options, *cases).items():
        reference = one_process[optimizer]["fused"][0]
        assert len(trained["fused"]) == (1 if STRATEGIES[strategy].one_process else nodes)
        for form in FORMS:
            for worker in trained[form]:
                assert largest_difference(worker, reference) <= TOLERANCE
                assert largest_difference(worker, trained[form][0]) == 0
        barriers = (tmp_path / f"{nodes}-{optimizer}").glob("barrier~*.json")
        came, left = zip(*(json.loads(file.read_text()) for file in barriers), strict=True)
        assert max(came) <= min(left)  # nobody passes a barrier before the last is there


def test_the_gradient_of_all_workers_is_clipped_not_each_one_s(tmp_path, one_process):
    (trained,) = ten_steps(tmp_path, "multi_worker_mirrored", {}, (2, CLIPPED)).values()
    for form in FORMS:
        for worker in trained[form]:
            assert largest_difference(worker, one_process[CLIPPED]["fused"][0]) <= TOLERANCE


def test_what_would_clip_the_gradient_of_each_device_is_refused(tmp_path):
    with pytest.raises(AssertionError, match="clip each device's gradient, not their sum"):
        ten_steps(tmp_path, "mirrored", {}, (2, CLIPPED))


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_split_form_of_one_process_is_its_fused_form(one_process, optimizer):
    forms = one_process[optimizer]
    assert largest_difference(forms["split"][0], forms["fused"][0]) <= TOLERANCE


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_training_moves_the_weights(one_process, optimizer):
    """Equality would be worth nothing if nobody learnt anything."""
    moved, still = (one_process[name]["fused"][0] for name in (optimizer, f"{optimizer}-still"))
    assert largest_difference(still, moved) > 100 * TOLERANCE
