"""Everything that benchmarks import from the project exists, although they seldom run."""

import ast
import importlib
from pathlib import Path

import pytest


@pytest.mark.timeout(60)  # some import TensorFlow
@pytest.mark.parametrize("path", sorted(Path("bench").rglob("*.py")), ids=str)
def test_what_a_benchmark_imports_is_there(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nodewise"):
            module = importlib.import_module(node.module)
            for alias in node.names:
                found = hasattr(module, alias.name)
                assert found or importlib.import_module(f"{node.module}.{alias.name}")
