"""The package uses only public interfaces of Python and of the libraries."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "workflow" / "nodewise"
# documented, in spite of the underscore
PUBLIC = ("_asdict", "_exit", "_fields", "_make", "_replace")

# (file, what it uses): why there is no public alternative
ALLOWED = {
    ("cluster/namespace.py", "ctypes"): "os.unshare exists from Python 3.12 on only",
    ("models/layers.py", "_nodes_by_depth"): "get_config needs layers that can be serialized",
    ("models/graph_flops.py", "_get_function"): "the public text of a function names no tensors",
    ("core/user_function.py", "sys.modules"): "importlib's documented way to import a file",
    ("strategies/mpi/worker.py", "ctypes"): "mpi4py holds the interpreter's lock while MPI starts",
    ("strategies/mirrored/worker.py", "_symbolic_build"): "what fit calls to have variables made",
    ("models/cut.py", "_keras_mask"): "Keras has no public way to ask for a mask",
}


def private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name not in PUBLIC


def nodes_of(source: str) -> list[ast.AST]:
    return list(ast.walk(ast.parse(source)))


def defined(nodes: list[ast.AST]) -> set[str]:
    """Return the private names that a file defines itself."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            own = getattr(node.value, "id", "") in ("self", "cls")
            found |= {node.attr} if own else set()
    return set(filter(private, found))


def used(nodes: list[ast.AST], ours: set[str]) -> set[str]:
    """Return the private names and modules of others that a file uses."""
    modules, paths = {}, set()
    for node in nodes:
        if isinstance(node, ast.Import):
            paths |= {name.name for name in node.names}
            modules |= {
                name.asname or name.name.partition(".")[0]: name.name for name in node.names
            }
        elif isinstance(node, ast.ImportFrom) and not str(node.module).startswith("nodewise"):
            paths |= {f"{node.module}.{name.name}" for name in node.names}
    found = set()
    for node in nodes:
        if isinstance(node, ast.Attribute):
            owner = modules.get(node.value.id) if isinstance(node.value, ast.Name) else None
            if owner:
                paths.add(f"{owner}.{node.attr}")
            elif private(node.attr) and node.attr not in ours:
                found.add(node.attr)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "getattr":
            name = getattr(node.args[1], "value", "")  # the value of a constant
            found |= {name} if private(str(name)) and name not in ours else set()
    return found | {
        "ctypes" if path.startswith("ctypes") else path
        for path in paths
        if path.startswith(("ctypes", "sys.modules")) or any(map(private, path.split(".")))
    }


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
    nodes = nodes_of(source)
    assert used(nodes, defined(nodes))


def test_what_is_ours_or_documented_is_allowed():
    nodes = nodes_of(
        "import os\nfrom nodewise.strategies import _own\nimport sys as _sys\n"
        "class A:\n def __init__(self): self._x = 1\n def _f(self, other): return other._x, _own\n"
        "def g(a, pair): os._exit(0); sys.path; a.__class__; return a._f(a), pair._replace(x=1)"
    )
    assert used(nodes, defined(nodes)) == set()


def test_nothing_private_of_a_library_is_used():
    files = {path: nodes_of(path.read_text()) for path in sorted(ROOT.rglob("*.py"))}
    ours = set().union(*map(defined, files.values()))
    found = {
        (path.relative_to(ROOT).as_posix(), name)
        for path, nodes in files.items()
        for name in used(nodes, ours)
    }
    assert found - ALLOWED.keys() == set()
    # Entries that are no longer used must be removed from the list.
    assert ALLOWED.keys() - found == set()
