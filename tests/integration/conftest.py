"""Jobs of real workers, all started by one launcher."""

import pytest

from launcher import Launcher


@pytest.fixture(scope="session")
def launch():
    """Return a function that runs a job's `main(*arguments)` in the launcher of this session.

    Its result is a `launcher.Done`.
    """
    launchers = []

    def run(main, *arguments, timeout_s=150):
        if not launchers:
            launchers.append(Launcher())
        try:
            return launchers[0].run(main, *arguments, timeout_s=timeout_s)
        except (TimeoutError, EOFError):
            launchers.clear()  # the next job gets another one
            raise

    yield run
    for launcher in launchers:
        launcher.end()


@pytest.fixture(scope="session")
def run_job(launch):
    """Return a function that runs a job, which must succeed; it returns what the job printed."""

    def run(main, *arguments, timeout_s=150):
        done = launch(main, *arguments, timeout_s=timeout_s)
        assert not done.error, done.error
        return done.printed

    return run
