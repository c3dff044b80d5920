"""Which devices each worker of a host gets."""

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
        (None, ["0", "1"]),  # the driver's GPUs are counted
    ],
)
def test_what_the_variable_names_may_be_used(monkeypatch, tmp_path, variable, found):
    monkeypatch.setattr(devices, "_NVIDIA", tmp_path)
    for address in ("0000:07:00.0", "0000:0b:00.0"):
        (tmp_path / address).mkdir()
    if variable is None:
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    else:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert devices.gpus_of_host() == found


def test_each_worker_of_a_host_gets_a_gpu_of_its_own_and_too_few_are_refused():
    assert [devices.gpu_of_worker(["3", "5"], place, 2) for place in (0, 1)] == ["3", "5"]
    assert devices.gpu_of_worker([], 1, 2) == NO_GPU
    with pytest.raises(RefusedError, match=r"1 and 2; cluster\.devices_per_node: at most 1"):
        devices.gpu_of_worker(["0"], 0, 2)
