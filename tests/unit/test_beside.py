"""Half of a command's work in a fork of it."""

import os

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
    """Each waits for a byte of the other: one after the other would never end."""
    (here, there), (answers, answer) = os.pipe(), os.pipe()

    def job():
        os.write(there, b"?")
        return os.read(answers, 1)

    other = beside(job)
    assert os.read(here, 1) == b"?"
    os.write(answer, b"!")
    assert other.result(timeout=30) == b"!"


def test_a_job_that_is_killed_is_an_error():
    with pytest.raises(Exception, match="terminated"):
        beside(lambda: os.kill(os.getpid(), 9)).result(timeout=30)
