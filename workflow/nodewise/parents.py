"""Processes that end with the one that started them, however that ends."""

import ctypes
import os
import signal

_PR_SET_PDEATHSIG = 1


def end_with(parent: int, number: int = signal.SIGKILL) -> bool:
    """Have the kernel send this process the signal `number` when `parent`, which forked it, ends.

    Returns:
        Whether it is still there: if not, it ended before the kernel was told.
    """
    # ctypes: Python has no prctl(2), and nothing else ends a process with its parent
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
    return os.getppid() == parent
