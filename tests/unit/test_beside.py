"""Half of a command's work in a fork of it."""

import os
import threading

import psutil
import pytest

from nodewise.beside import beside
from nodewise.errors import UserError


def test_the_job_has_what_is_there_and_its_result_comes_back():
    here = {"of this process": lambda: 3}  # which is not to be copied
    with beside(lambda: (here["of this process"](), os.getpid())) as other:
        result, process = other.result(timeout=30)
    assert result == 3 and process != os.getpid()


def test_its_error_is_raised_here():
    def fail():
        raise UserError("what, where")

    with pytest.raises(UserError, match="what, where"), beside(fail) as other:
        other.result(timeout=30)


def test_both_work_at_the_same_time():
    """Each waits for a byte of the other: one after the other would never end."""
    (here, there), (answers, answer) = os.pipe(), os.pipe()

    def job():
        os.write(there, b"?")
        return os.read(answers, 1)

    with beside(job) as other:
        assert os.read(here, 1) == b"?"
        os.write(answer, b"!")
        assert other.result(timeout=30) == b"!"


def test_a_job_that_is_killed_is_an_error():
    killed = beside(lambda: os.kill(os.getpid(), 9))
    with pytest.raises(Exception, match="terminated"), killed as other:
        other.result(timeout=30)


def test_nothing_of_it_is_left_when_this_half_fails():
    """Threads that were would be in the way of Python's end, which would say so."""
    before = threading.active_count()
    with pytest.raises(UserError), beside(os.getpid) as other:
        process = other.result(timeout=30)
        raise UserError("of this half")
    assert threading.active_count() == before
    assert not psutil.pid_exists(process)
