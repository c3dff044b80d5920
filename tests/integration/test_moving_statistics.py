"""After training the replicas are one model, batch normalisation included."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

JOB = Path(__file__).with_name("moving_statistics_job.py")


@pytest.mark.parametrize(
    "strategy", ["custom_loop", "mpi", "multi_worker_mirrored", "parameter_averaging"]
)
def test_moving_statistics_are_averaged_over_the_workers(tmp_path, strategy):
    command = [sys.executable, JOB, strategy, tmp_path]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=150)
    before, after = (
        [list(np.load(tmp_path / f"{when}~{rank}.npz").values()) for rank in range(2)]
        for when in ("before", "after")
    )
    assert len(after[0]) == 2  # mean and variance
    for one, other, agreed, agreed_too in zip(*before, *after, strict=True):
        assert not np.allclose(one, other)
        np.testing.assert_allclose(agreed, (one + other) / 2, rtol=1e-6)
        np.testing.assert_array_equal(agreed, agreed_too)
    logits = [np.load(tmp_path / f"logits~{rank}.npy") for rank in range(2)]
    np.testing.assert_array_equal(*logits)
