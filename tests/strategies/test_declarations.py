"""Every registered strategy is complete: it is declared without TensorFlow and has a worker."""

import json
import subprocess
import sys

import pytest

from nodewise.strategies import STRATEGIES

EACH = pytest.mark.parametrize("name", STRATEGIES)

READ = """
import json, sys
import nodewise.report.pages.strategies
from nodewise.strategies import STRATEGIES
print(json.dumps([list(STRATEGIES), sorted({name.partition(".")[0] for name in sys.modules})]))
"""
WORKERS = """
import json
from nodewise.core.errors import RefusedError
from nodewise.strategies import STRATEGIES
from nodewise.strategies.api import Strategy
found = {}
for name, declared in STRATEGIES.items():
    try:
        worker = declared.worker()
    except RefusedError as error:
        found[name] = declared.library.why_missing() in str(error)
        continue
    made = worker.Strategy
    complete = not isinstance(made, type) or (
        issubclass(made, Strategy) and not made.__abstractmethods__
    )
    found[name] = complete and hasattr(worker, "Server") == bool(declared.options().server_nodes)
print(json.dumps(found))
"""


def printed(program):
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def test_declarations_and_their_pages_need_no_tensorflow():
    names, imported = printed(READ)
    assert names == list(STRATEGIES)
    assert not {"tensorflow", "keras"} & set(imported)


@pytest.mark.slow
def test_every_worker_has_the_whole_interface_or_says_what_is_missing():
    assert printed(WORKERS) == dict.fromkeys(STRATEGIES, True)


@EACH
def test_a_declaration_says_everything_that_its_page_shows(name):
    declared = STRATEGIES[name]
    assert declared.title and declared.needs
    assert [one for one in STRATEGIES if STRATEGIES[one].title == declared.title] == [name]
    assert declared.module == f"nodewise.strategies.{name}"
    assert (declared.folder / "worker.py").is_file()
    assert declared.checked({}, declared.max_nodes) == declared.options()
    with pytest.raises(ValueError, match=r"^nodes: allowed"):
        declared.checked({}, declared.max_nodes + 1)
