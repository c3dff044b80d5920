"""Half of a command's work in a fork of it."""

import os
import time

import pytest

from nodewise.beside import beside
from nodewise.errors import UserError


def test_the_job_has_what_is_there_and_its_result_comes_back():
    here = {"of this process": lambda: 3}  # which is not to be copied
    other = beside(lambda: (here["of this process"](), os.getpid()))
    result, process = other.result(timeout=30)
    assert result == 3 and process != os.getpid()


def test_its_error_is_raised_here():
    def fail():
        raise UserError("what, where")

    with pytest.raises(UserError, match="what, where"):
        beside(fail).result(timeout=30)


def test_both_work_at_the_same_time():
    began = time.monotonic()
    other = beside(lambda: time.sleep(1))
    time.sleep(1)
    other.result(timeout=30)
    assert time.monotonic() - began < 1.8


def test_a_job_that_is_killed_is_an_error():
    with pytest.raises(Exception, match="terminated"):
        beside(lambda: os.kill(os.getpid(), 9)).result(timeout=30)
