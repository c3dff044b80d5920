"""Run the jobs of all tests in one launcher process, which imports modules only once."""

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from unittest import mock

from nodewise.cluster import namespace

_ENVIRONMENT = {
    "CUDA_VISIBLE_DEVICES": "-1",
    "OPENBLAS_NUM_THREADS": "1",  # a process with several threads cannot enter a node's namespace
    "TF_CPP_MIN_LOG_LEVEL": "2",
}


def start(backend: str) -> ProcessPoolExecutor:
    """Start a process in a network of its own, to which functions can be submitted."""
    with mock.patch.dict(os.environ, _ENVIRONMENT | {"KERAS_BACKEND": backend}):
        launcher = ProcessPoolExecutor(1, get_context("spawn"), _enter_network)
        launcher.submit(int).result()  # the process starts with its first job
    return launcher


def _enter_network() -> None:
    private = namespace.enter_network()
    # Jobs open clusters, and each cluster would enter a new network. The process that workers are
    # forked from is not in that network.
    namespace.enter_network = lambda: private
