"""What Snakemake does on Ctrl-C."""

import signal
import threading
from types import FrameType


def finish_running_jobs() -> None:
    """Have Snakemake take a first SIGINT like a SIGTERM: running jobs finish, no other starts.

    By default Snakemake also waits for running jobs on SIGINT, but forgets that they finished and
    runs them again. A second SIGINT ends it at once. To be called by the workflow.
    """
    signal.signal(signal.SIGINT, _terminate)


def _terminate(number: int, frame: FrameType | None) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    terminate = signal.getsignal(signal.SIGTERM)
    if not callable(terminate):  # no job has been started yet
        raise KeyboardInterrupt
    # in a thread: it waits for a lock that this interrupted thread may hold
    threading.Thread(target=terminate, args=(number, frame)).start()
