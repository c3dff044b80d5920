"""The package keeps to the public interface of Python and of the libraries that it uses."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "workflow" / "nodewise"
PUBLIC = {
    "_asdict",
    "_exit",
    "_fields",
    "_make",
    "_replace",
}  # documented, whatever their names say

# (file, what it uses): why there is no public way
ALLOWED = {
    ("clusters/network.py", "ctypes"): "os.unshare exists from Python 3.12 on only",
    ("measure/describe.py", "_nodes_by_depth"): "get_config needs layers that can be serialized",
    ("own.py", "_compile_config"): "get_compile_config serializes loss and optimizer, too",
    ("own.py", "_flatten_layers"): "layers inside a custom layer are listed nowhere else",
    ("parents.py", "ctypes"): "Python has no prctl(2)",
    ("runner.py", "ctypes"): "Python has no mallopt(3)",
    ("runs.py", "snakemake.io._IOFile"): "to be deleted",
    ("runs.py", "sys.modules"): "to be deleted",
    ("specs.py", "sys.modules"): "importlib's documented way to import a file",
    ("strategies/mpi.py", "ctypes"): "mpi4py holds the interpreter's lock while MPI starts",
    ("strategies/stages.py", "_keras_mask"): "Keras has no public way to ask for a mask",
    ("tensorflow_import.py", "sys.modules"): "to be deleted",
}


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def defined(tree: ast.AST) -> set[str]:
    """Return the private names that a file gives to something of its own."""
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.arg(arg=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                found.add(name)
    return found


def used(tree: ast.AST, ours: set[str]) -> set[str]:
    """Return what a file uses of others that they do not offer."""
    found, modules = set(), set()
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                modules |= {name.asname or name.name.partition(".")[0] for name in names}
                found |= {n.name for n in names if any(map(private, n.name.split(".")))}
                found |= {"ctypes" for name in names if name.name == "ctypes"}
            case ast.ImportFrom(module=str(module), names=names) if "nodewise" not in module:
                paths = [f"{module}.{name.name}" for name in names]
                found |= {path for path in paths if any(map(private, path.split(".")))}
                found |= {"ctypes" for _ in names if module == "ctypes"}
                found |= {path for path in paths if path == "sys.modules"}
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
                found.add("sys.modules")
            case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in modules:
                found |= {f"{owner}.{name}"} if private(name) and name not in PUBLIC else set()
            case ast.Attribute(attr=name) if private(name) and name not in ours | PUBLIC:
                found.add(name)
            case ast.Call(func=ast.Name(id="getattr"), args=[_, ast.Constant(value=str(name)), *_]):
                found |= {name} if private(name) and name not in ours else set()
    return found


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np; np._core",
        "import keras.src._x",
        "from keras import _x",
        "from keras._x import y",
        "def f(optimizer): return optimizer._learning_rate",
        "def f(optimizer): optimizer._learning_rate = 1",
        "def f(tensor): return getattr(tensor, '_keras_mask', None)",
        "import sys; sys.modules['x'] = None",
        "from sys import modules",
        "import ctypes",
        "from ctypes import CDLL",
    ],
)
def test_what_is_private_is_seen(source):
    tree = ast.parse(source)
    assert used(tree, defined(tree))


def test_what_is_ours_or_documented_is_allowed():
    tree = ast.parse(
        "import os\nfrom nodewise.strategies import _own\nimport sys as _sys\n"
        "class A:\n def __init__(self): self._x = 1\n def _f(self, other): return other._x, _own\n"
        "def g(a, pair): os._exit(0); sys.path; a.__class__; return a._f(a), pair._replace(x=1)"
    )
    assert used(tree, defined(tree)) == set()


def test_nothing_private_of_a_library_is_used():
    trees = {path: ast.parse(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
    ours = set().union(*map(defined, trees.values()))
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for path, tree in trees.items()
        for name in used(tree, ours)
    }
    assert found - ALLOWED.keys() == set()
    assert ALLOWED.keys() - found == set()  # the list only shrinks
