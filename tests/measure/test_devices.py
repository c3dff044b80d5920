"""Which devices each worker of a host gets."""

import os

import pytest

from nodewise.cluster.api import NO_GPU
from nodewise.core.errors import RefusedError
from nodewise.measure import devices


@pytest.mark.parametrize(
    ("variable", "found"),
    [
        ("0,1,2,3", ["0", "1", "2", "3"]),
        ("3, 5", ["3", "5"]),  # as Slurm assigns them to a job
        ("GPU-8932f937-d72c,MIG-11", ["GPU-8932f937-d72c", "MIG-11"]),
        ("-1", []),
        ("NoDevFiles", []),
        ("", []),
    ],
)
def test_what_the_variable_names_may_be_used(monkeypatch, variable, found):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert devices.gpus_of_host() == found


def test_without_the_variable_the_drivers_gpus_are_counted(monkeypatch, tmp_path):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(devices, "_NVIDIA", tmp_path / "gpus")
    assert devices.gpus_of_host() == []
    for address in ("0000:07:00.0", "0000:0b:00.0"):
        (tmp_path / "gpus" / address).mkdir(parents=True)
    assert devices.gpus_of_host() == ["0", "1"]


def test_each_worker_of_a_host_gets_a_gpu_of_its_own():
    assert [devices.gpu_of_worker(["3", "5"], place, 2) for place in (0, 1)] == ["3", "5"]
    assert devices.gpu_of_worker(["0", "1"], 0, 1) == "0"
    assert devices.gpu_of_worker([], 1, 2) == NO_GPU


def test_fewer_gpus_than_workers_is_refused():
    with pytest.raises(RefusedError, match=r"1 and 2; cluster\.devices_per_node: at most 1"):
        devices.gpu_of_worker(["0"], 0, 2)


def test_workers_share_the_cores_that_they_may_use():
    cores = len(os.sched_getaffinity(0))
    assert devices.threads_of_worker(1) == cores
    assert devices.threads_of_worker(10 * cores) == 1
