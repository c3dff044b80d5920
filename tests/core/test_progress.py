"""The progress bar is shown only to people who wait at a terminal."""

import io
import sys

import pytest

from nodewise.core import progress as progress_module
from nodewise.core.progress import progress, share_done


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize(
    ("stream", "patience", "shown"),
    [(Terminal, 0.0, True), (Terminal, 100.0, False), (io.StringIO, 0.0, False)],
)
def test_the_bar(monkeypatch, stream, patience, shown):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(progress_module, "PATIENCE_S", patience)
    monkeypatch.setattr(sys, "stderr", stream())
    with progress("drawing [sample]", 4) as advance:
        for _ in range(4):
            advance(1)
    assert ("drawing [sample]" in sys.stderr.getvalue()) == shown
    assert bool(sys.stderr.getvalue()) == shown


def test_a_share_is_drawn_at_once_and_goes_up_to_the_end(monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(progress_module, "_REDRAWN_S", 0.0)
    with share_done("a cell") as tell:
        assert "0%" in sys.stderr.getvalue()
        for share in (0.25, 0.75, 1.0):
            tell(share)
    shown = sys.stderr.getvalue()
    assert shown.index("25%") < shown.index("75%") < shown.index("100%")
