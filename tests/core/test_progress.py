"""The progress bar is shown only to people who wait at a terminal."""

import io
import sys

import pytest

from nodewise.core import progress as progress_module
from nodewise.core.progress import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("stream", [Terminal, io.StringIO])
def test_a_bar_goes_up_to_the_end_on_a_terminal_only(monkeypatch, stream):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream())
    monkeypatch.setattr(progress_module, "_REDRAWN_S", 0.0)
    with progress("drawing [sample]") as show:
        for share in (0.25, 0.75, 1.0):
            show(share)
    shown = sys.stderr.getvalue()
    if stream is io.StringIO:
        assert shown == ""
    else:
        assert "drawing [sample]" in shown
        assert shown.index("25%") < shown.index("75%") < shown.index("100%")
