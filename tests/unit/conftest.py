"""A study that several modules only read: drawing it takes seconds."""

from pathlib import Path

import pytest

import make_records as make
from rendering import draw_all, render


@pytest.fixture(scope="session")
def study(fill_once) -> Path:
    """Return the folder of a small study, its charts drawn and its pages rendered."""

    def fill(folder: Path) -> None:
        make.write_study(folder, make.grid(batches=(64, 512)), make.published())
        draw_all(folder)
        render(folder)

    return fill_once("study", fill)
