"""The devices of a worker on a host: a GPU of its own, or its part of the cores."""

import os
from collections.abc import Sequence
from pathlib import Path

from nodewise.cluster.api import NO_GPU
from nodewise.core.errors import RefusedError

_NVIDIA = Path("/proc/driver/nvidia/gpus")  # contains a folder per GPU


def gpus_of_host() -> list[str]:
    """Return the GPUs that programs on this host may use, as written in CUDA_VISIBLE_DEVICES.

    That variable is set by Slurm, or by anyone who shares a host with others. Without it, these are
    all GPUs of the host.
    """
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return [str(number) for number, _ in enumerate(sorted(_NVIDIA.glob("*")))]
    words = [word.strip() for word in allowed.split(",")]
    return [word for word in words if word not in ("", NO_GPU, "NoDevFiles")]


def gpu_of_worker(gpus: Sequence[str], place: int, workers: int) -> str:
    """Return the GPU, out of `gpus`, for the worker in `place` of the host's `workers`, or none.

    Raises:
        RefusedError: the host has GPUs, but fewer than workers.
    """
    if not gpus:
        return NO_GPU
    if len(gpus) < workers:
        raise RefusedError(
            f"has fewer GPUs than workers, {len(gpus)} and {workers}; "
            f"cluster.devices_per_node: at most {len(gpus)}"
        )
    return gpus[place]


def threads_of_worker(workers: int) -> int:
    """Return the number of threads per worker, so that `workers` use all cores of this host.

    These are the cores that this process may use: Slurm may have allocated only some of them.
    """
    return max(1, len(os.sched_getaffinity(0)) // workers)
