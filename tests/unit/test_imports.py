"""What a rule is told to watch is what its code really imports."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import nodewise
from nodewise.imports import imported

LOADED = """
import importlib, json, sys

importlib.import_module(sys.argv[1])
files = [m.__file__ for n, m in sys.modules.items() if n.partition(".")[0] == "nodewise"]
print(json.dumps(files))
"""


def loaded(module):
    done = subprocess.run(
        [sys.executable, "-c", LOADED, module], check=True, capture_output=True, text=True
    )
    return {Path(file) for file in json.loads(done.stdout.splitlines()[-1])}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "module"),
    [
        ("tables.py", "nodewise.tables"),
        ("overhead/study.py", "nodewise.overhead.study"),
        ("charts/__init__.py", "nodewise.charts"),
        ("pages/__init__.py", "nodewise.pages"),
        ("strategies/hybrid.py", "nodewise.strategies.hybrid"),
    ],
)
def test_all_that_is_loaded_is_known(file, module):
    assert loaded(module) <= set(imported(file))


def test_what_is_imported_inside_of_functions_counts_too():
    package = Path(nodewise.__file__).parent
    assert package / "weights.py" in imported("runner.py")


def test_a_strategy_needs_what_it_is_made_of_and_not_the_others():
    names = {file.stem for file in imported("strategies/custom_loop.py")}
    assert {"custom_loop", "multi_worker_mirrored", "star", "base"} <= names
    assert not {"horovod", "mpi", "async_sgd"} & names
