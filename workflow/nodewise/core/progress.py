"""Show progress bars on a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_S = 2.0
_REDRAWN_S = 0.1


@contextmanager
def progress(
    label: str, total: float | None, *, at_once: bool = False
) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on stderr; yield a function to call with the amount just done.

    The bar is only shown on a terminal, and removed at the end.

    Args:
        label: text beside the bar.
        total: amount of the whole work; None if it is unknown.
        at_once: show the bar at once, instead of after PATIENCE_S seconds.
    """
    if not sys.stderr.isatty():
        yield lambda amount: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        console=Console(stderr=True),
        transient=True,
        auto_refresh=False,  # no refresh thread, because workers are forked while the bar is shown
    )
    task = bar.add_task(label, total=total)
    due = time.monotonic() + (0 if at_once else PATIENCE_S)

    def advance(amount: float) -> None:
        nonlocal due
        bar.advance(task, amount)
        if time.monotonic() >= due:
            due = time.monotonic() + _REDRAWN_S
            bar.start()  # does nothing if it has been started
            bar.refresh()

    try:
        yield advance
    finally:
        if bar.live.is_started:
            bar.stop()


@contextmanager
def share_done(label: str) -> Iterator[Callable[[float], None]]:
    """Show a progress bar at once; yield a function to call with the share (0 … 1) done so far."""
    with progress(label, 1.0, at_once=True) as advance:
        done = 0.0

        def tell(share: float) -> None:
            nonlocal done
            advance(share - done)
            done = share

        tell(0.0)
        yield tell
