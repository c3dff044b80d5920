"""The environment variables that a launcher settles for its workers, before NumPy is imported."""

import os

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",  # no thread may exist when namespaces are entered
    "TF_CPP_MIN_LOG_LEVEL": "1",
    # TensorFlow takes oneDNN's convolutions by itself only where a processor has AVX-512; with AVX2
    # they make a step of the Fashion CNN twice as fast, too, and one of ResNet50 four times
    "TF_ENABLE_ONEDNN_OPTS": "1",
    # a thread each; by default as many as 64 for every node, which all wake up in a duty cycle
    "TF_GRPC_WORKER_CACHE_QUEUES": "2",
    "TF_GRPC_WORKER_CACHE_THREADS": "2",
}
# A step frees its activations and the next one takes as much again. By default glibc gives them
# back to the kernel in between, which then fills every page anew: a tenth to more than half of a
# step, differently in every launch. glibc reads this when a program starts.
KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_ARENA_MAX": "1",
}
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


def settle_environment(*, keep_memory: bool = True) -> None:
    """Set what a launcher's workers inherit; before NumPy is imported."""
    os.environ.update(ENVIRONMENT)
    if keep_memory:
        os.environ.update(KEEP_MEMORY)
    for name in _PROXIES:
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)
