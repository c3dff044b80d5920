"""TensorFlow is imported without what it only might use, which stays there for everybody else."""

import subprocess
import sys

JOB = """
import gc, sys, typing
from nodewise.tensorflow_import import import_tensorflow

import_tensorflow()
assert {"tensorflow", "keras"} <= set(sys.modules)
assert not {"jax", "pandas", "pyarrow", "scipy"} & set(sys.modules)
assert gc.isenabled()
assert not hasattr(typing, "compile")
import pandas

assert pandas.DataFrame({"there": [1]}).there.sum() == 1
"""
AFTER = """
import pandas
from nodewise.tensorflow_import import import_tensorflow

import_tensorflow()
import sys

assert sys.modules["pandas"] is pandas
"""


def run(script):
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_what_it_might_use_is_not_imported_and_can_be_afterwards():
    run(JOB)


def test_what_is_imported_already_stays():
    run(AFTER)
