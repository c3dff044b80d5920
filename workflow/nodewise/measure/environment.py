"""Environment variables that a launcher sets for its workers, before NumPy is imported."""

import os

ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",  # no thread may exist when namespaces are entered
    "TF_CPP_MIN_LOG_LEVEL": "1",
    # By default TensorFlow uses oneDNN's convolutions only on processors with AVX-512. With AVX2
    # they also help: a step of the Fashion CNN is twice as fast, one of ResNet50 four times.
    "TF_ENABLE_ONEDNN_OPTS": "1",
    # each is a thread; the default is up to 64 per node, which all wake up in a duty cycle
    "TF_GRPC_WORKER_CACHE_QUEUES": "2",
    "TF_GRPC_WORKER_CACHE_THREADS": "2",
}
# A step frees its activations, and the next one allocates as much again. By default glibc returns
# the memory to the kernel in between, which then has to zero every page again. That takes from a
# tenth to more than half of a step's time, and varies between launches. glibc reads these variables
# when a program starts.
KEEP_MEMORY = {
    "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1),
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_ARENA_MAX": "1",
}
_PROXIES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


def settle_environment(*, keep_memory: bool = True, backend: str = "tensorflow") -> None:
    """Set the environment variables that workers inherit. Call it before NumPy is imported.

    `backend` is that of Keras.
    """
    os.environ.update(ENVIRONMENT)
    os.environ["KERAS_BACKEND"] = backend
    if keep_memory:
        os.environ.update(KEEP_MEMORY)
    for name in _PROXIES:
        os.environ.pop(name, None)
        os.environ.pop(name.upper(), None)
