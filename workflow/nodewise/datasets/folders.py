"""A folder that one run at a time writes to."""

import fcntl
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

log = logging.getLogger(__name__)


@contextmanager
def exclusive(folder: Path) -> Iterator[Path]:
    """Make and yield `folder`: wait until no other run writes to it.

    The lock ends with the process, however that ends. Its file `.lock` stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("%s: another run is writing here; waiting for it", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
