"""Show progress bars on a terminal."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_REDRAWN_S = 0.1


@contextmanager
def progress(label: str, total: float | None = 1.0) -> Iterator[Callable[[float], None]]:
    """Show a progress bar on stderr; yield a function to call with the amount done so far.

    The bar is only shown on a terminal, and removed at the end.

    Args:
        label: text beside the bar.
        total: amount of the whole work; None if it is unknown. By default amounts are shares.
    """
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    columns = TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn()
    # no refresh thread, because workers are forked while the bar is shown
    with Progress(
        *columns, console=Console(stderr=True), transient=True, auto_refresh=False
    ) as bar:
        task, due = bar.add_task(label, total=total), 0.0

        def show(done: float) -> None:
            nonlocal due
            bar.update(task, completed=done)
            if time.monotonic() >= due:
                due = time.monotonic() + _REDRAWN_S
                bar.refresh()

        yield show
