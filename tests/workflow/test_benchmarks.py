"""Everything that benchmarks import from the project exists, although they seldom run."""

import ast
from pathlib import Path

import pytest

BENCHMARKS = sorted(Path("bench").rglob("*.py"))
PACKAGE = Path("workflow")


def names_of(module: Path) -> set[str]:
    """Return the names that a module defines or imports."""
    tree = ast.parse(module.read_text())
    names = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.alias(name=name, asname=alias):
                names.add(alias or name)
    return names


def missing(statement: ast.ImportFrom):
    """Yield the names in an import statement that do not exist."""
    place = PACKAGE / (statement.module or "").replace(".", "/")
    module = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    for alias in statement.names:
        is_module = (place / f"{alias.name}.py").is_file() or (place / alias.name).is_dir()
        if not is_module and (not module.is_file() or alias.name not in names_of(module)):
            yield f"{statement.module}.{alias.name}"


@pytest.mark.parametrize("path", BENCHMARKS, ids=str)
def test_what_a_benchmark_imports_is_there(path):
    imports = [
        node
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("nodewise")
    ]
    assert [name for statement in imports for name in missing(statement)] == []
