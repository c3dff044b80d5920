"""Settings of all tests (time limits, Hypothesis examples) and shared fixtures."""

import os

# As in `nodewise`: more threads of NumPy would only take time from the other tests.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import shutil
import signal
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

# In continuous integration, static checks and the build of Horovod run beside the tests.
QUICK_S = 30 if "CI" in os.environ else 10
LONG_S = 300
LONG_MARKERS = ("slow", "alone")

# Use the same examples in every run, so that no run fails by chance. `make test-random` searches
# for others.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=20)
settings.register_profile("random", deadline=None, max_examples=300)
settings.load_profile("fixed")


class TookTooLongError(BaseException):
    """A test did not end within its limit.

    It is not an `Exception`: the tested code must not catch it. Hypothesis would take an exception
    for a failing example and run it again, this time without a limit.
    """


def pytest_collection_modifyitems(config, items):
    """Give each test that sets no limit itself a time limit, which excludes its fixtures."""
    if config.getoption("timeout") is not None:
        return
    for item in items:
        if not item.get_closest_marker("timeout"):
            long = any(item.get_closest_marker(name) for name in LONG_MARKERS)
            item.add_marker(pytest.mark.timeout(LONG_S if long else QUICK_S))


def pytest_timeout_set_timer(item, settings):
    """Raise our own error at the limit instead of pytest-timeout's."""

    def end(number, frame):
        raise TookTooLongError(f"not finished within {settings.timeout:g} s")

    item.cancel_timeout = lambda: signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


@pytest.fixture(scope="session")
def fill_once(tmp_path_factory, worker_id):
    """Return a function that fills a folder once for all test processes.

    Tests only read the folder.
    """

    filled_here = {}

    def filled(name, fill):
        if worker_id == "master":  # Tests run in this one process.
            if name not in filled_here:
                folder = tmp_path_factory.mktemp(name)
                fill(folder)
                filled_here[name] = folder
            return filled_here[name]
        folder = tmp_path_factory.getbasetemp().parent / name
        done = folder.with_name(f"{name}.done")
        with FileLock(f"{folder}.lock"):
            if not done.exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                done.touch()
        return folder

    return filled


@pytest.fixture(scope="session")
def study(fill_once) -> Path:
    """Return the folder of a small study with drawn charts and rendered pages.

    Drawing it takes seconds, so tests share it and only read it.
    """

    import make_records as make
    from rendering import draw_all, render

    def fill(folder: Path) -> None:
        make.write_study(folder, make.grid(batches=(64, 512)), make.published())
        draw_all(folder)
        render(folder)

    return fill_once("study", fill)


@pytest.fixture(scope="session")
def launch():
    """Return a function that runs a job's `main(*arguments)` in the launcher of this session.

    The function returns a `launcher.Done`.
    """
    from launcher import Launcher

    launchers = []

    def run(main, *arguments, timeout_s=150):
        if not launchers:
            launchers.append(Launcher())
        try:
            return launchers[0].run(main, *arguments, timeout_s=timeout_s)
        except (TimeoutError, EOFError):
            launchers.clear()  # The next job starts a new launcher.
            raise

    yield run
    for launcher in launchers:
        launcher.end()


@pytest.fixture(scope="session")
def run_job(launch):
    """Return a function that runs a job, checks that it succeeded and returns what it printed."""

    def run(main, *arguments, timeout_s=150):
        done = launch(main, *arguments, timeout_s=timeout_s)
        assert not done.error, done.error
        return done.printed

    return run
