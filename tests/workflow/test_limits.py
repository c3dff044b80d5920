"""A test that never ends fails at its limit, and the test run continues."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parent.with_name("conftest.py")
HANGING = """
import time

import pytest
from hypothesis import given, strategies


def test_that_catches_every_error():
    while True:
        try:
            time.sleep(60)
        except Exception:
            pass


@given(strategies.integers())
def test_with_an_example_that_never_ends(number):
    while number > 3:
        time.sleep(0.1)


@pytest.fixture
def never():
    time.sleep(60)


def test_with_a_fixture_that_never_ends(never):
    pass


def test_that_ends():
    pass
"""
LIMITS = """
[pytest]
timeout_func_only = true
faulthandler_timeout = 2
faulthandler_exit_on_timeout = true
markers =
    slow
    alone
"""


@pytest.mark.timeout(60)
def test_what_never_ends_fails_and_the_run_goes_on(tmp_path):
    shutil.copy(CONFTEST, tmp_path)
    (tmp_path / "pytest.ini").write_text(LIMITS)
    (tmp_path / "test_hanging.py").write_text(HANGING)
    command = [sys.executable, "-m", "pytest", "-n1", "--timeout=0.5", tmp_path]
    done = subprocess.run(
        command, cwd=tmp_path, check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "3 failed, 1 passed" in done.stdout


def test_a_limit_is_short_unless_the_test_is_marked(request):
    """This test has no mark; the test above has its own limit."""
    assert request.node.get_closest_marker("timeout").args == (30 if "CI" in os.environ else 10,)


@pytest.mark.slow
def test_a_slow_test_may_take_longer(request):
    assert request.node.get_closest_marker("timeout").args == (300,)
