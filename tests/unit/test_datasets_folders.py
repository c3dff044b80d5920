"""One run at a time writes to a folder; the progress bar shows only to people who wait."""

import io
import logging
import sys
import threading

import pytest

from nodewise import progress as progress_module
from nodewise.datasets.folders import exclusive
from nodewise.progress import progress, share_done


def test_a_second_run_waits_for_the_first(tmp_path, caplog):
    caplog.set_level(logging.INFO)
    order = []
    inside = threading.Event()

    def second():
        inside.wait()
        with exclusive(tmp_path):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with exclusive(tmp_path):
        inside.set()
        thread.join(0.3)
        assert thread.is_alive()
        order.append("first")
    thread.join(10)
    assert order == ["first", "second"]
    assert "waiting" in caplog.text


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
