"""What a worker on a host computes with: a GPU of its own, or its part of the cores."""

import os
from collections.abc import Sequence
from pathlib import Path

from nodewise.cluster.api import NO_GPU
from nodewise.core.errors import RefusedError

_NVIDIA = Path("/proc/driver/nvidia/gpus")  # a folder for each


def gpus_of_host() -> list[str]:
    """Return the GPUs that programs on this host may use, in the words of CUDA_VISIBLE_DEVICES.

    Slurm, or whoever shares a host with others, sets that variable.
    """
    allowed = os.environ.get("CUDA_VISIBLE_DEVICES")
    if allowed is None:
        return [str(number) for number, _ in enumerate(sorted(_NVIDIA.glob("*")))]
    words = [word.strip() for word in allowed.split(",")]
    return [word for word in words if word not in ("", NO_GPU, "NoDevFiles")]


def gpu_of_worker(gpus: Sequence[str], place: int, workers: int) -> str:
    """Return which of a host's `gpus` the worker in `place` of its `workers` sees: one, or none.

    Raises:
        RefusedError: the host has some, but fewer than workers.
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
    """Return how many threads each of the `workers` on this host computes with: all cores are used.

    Slurm may have given us some of the cores only.
    """
    return max(1, len(os.sched_getaffinity(0)) // workers)
