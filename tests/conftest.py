"""Set the profiles of Hypothesis, and define fixtures that all tests share."""

import os

# As in `nodewise`: with more threads, NumPy only takes time from the other tests.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import shutil
import signal
from concurrent.futures import BrokenExecutor
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

# The examples are the same in every run, so that no run fails by chance. `make test-random` uses
# random ones.
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=20)
settings.register_profile("random", deadline=None, max_examples=300)
settings.load_profile("fixed")


class TookTooLongError(BaseException):
    """A test did not end within its time limit.

    It is not an `Exception`, so that the tested code does not catch it. Hypothesis would take an
    `Exception` for a failing example and run the example again, without a limit.
    """


def pytest_timeout_set_timer(item, settings):
    """End tests that take too long with `TookTooLongError` instead of pytest-timeout's error."""

    def end(number, frame):
        raise TookTooLongError(f"not finished within {settings.timeout:g} s")

    item.cancel_timeout = lambda: signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, end)
    signal.setitimer(signal.ITIMER_REAL, settings.timeout)
    return True


@pytest.fixture(scope="session")
def fill_once(tmp_path_factory, worker_id):
    """Return a function that fills a folder once for all test processes.

    The function takes the folder's name and a function that fills the folder, and returns the
    folder. Tests must only read it.
    """

    own = tmp_path_factory.getbasetemp()
    shared = own if worker_id == "master" else own.parent

    def filled(name, fill):
        folder = shared / name
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
    """Return the folder of a study with its charts and pages; see `make_records.varied`.

    It is made only once, because drawing takes seconds; tests must only read it.
    """

    import make_architectures
    import make_records as make
    from nodewise.models.facts import facts
    from nodewise.results import published
    from rendering import render

    def fill(folder: Path) -> None:
        theirs = folder / "theirs.csv"
        lines = [f"Their cluster,{n},64,{0.1 + 0.02 * (n - 1)}" for n in (1, 2, 3, 4)]
        theirs.write_text("\n".join(["curve,nodes,batch_per_worker,step_time_s", *lines]))
        make.write_study(folder, make.varied(), make.published(), published.runs(), [theirs])
        described = [make_architectures.fashion_cnn(), facts("fashion_mlp"), facts("mnist_cnn")]
        models = make_architectures.write(described, folder / "models")
        render(folder, models_dir=models)

    return fill_once("study", fill)


@pytest.fixture(scope="session")
def docs(study) -> Path:
    """Return the folder of the pages of `study`."""
    return study / "docs"


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Return a copy of the project, which all tests of a module use."""
    import projects

    return projects.copy(tmp_path_factory.mktemp("copy") / "project")


@pytest.fixture(scope="session")
def run_job():
    """Return a function that calls `job(*arguments)` in a launcher process and expects no error.

    The session has one for each backend of Keras.
    """
    from launcher import start

    launchers = {}

    def run(job, *arguments, timeout_s=150, backend="tensorflow"):
        if backend not in launchers:
            launchers[backend] = start(backend)
        try:
            launchers[backend].submit(job, *arguments).result(timeout_s)
        except (TimeoutError, BrokenExecutor):
            for process in launchers.pop(backend)._processes.values():
                process.kill()  # the next job gets another one
            raise

    yield run
    for launcher in launchers.values():
        launcher.shutdown()
