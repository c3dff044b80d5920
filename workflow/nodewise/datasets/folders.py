"""A folder that one run at a time writes to, and that a killed run cannot litter for long."""

import fcntl
import logging
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath

log = logging.getLogger(__name__)


@contextmanager
def exclusive(folder: Path, names: Collection[str]) -> Iterator[None]:
    """Make `folder`, wait until no other run writes to it, and clear what killed runs left.

    Args:
        folder: where the caller is going to write.
        names: the files it is going to write through `nodewise.files.atomic`; only their temporary
            files are cleared.

    The lock ends with the process, however that ends. Its file `.lock` stays.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            log.info("%s: another run is writing here; waiting for it", folder)
            fcntl.flock(lock, fcntl.LOCK_EX)
        for name in map(PurePath, names):
            for leftover in folder.glob(f".{name.stem}-????????{name.suffix}"):
                leftover.unlink(missing_ok=True)
        yield
