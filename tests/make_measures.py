"""Update the digests of the code that measures: python tests/make_measures.py."""

import ast
import hashlib
from pathlib import Path

PACKAGE = Path("workflow/nodewise")
MODELS = ("contents", "cut", "fit_options", "graph_flops", "registry", "training", "user_model")
MEASURING = ["core/cell.py", "results/quiet_thresholds.py", "study/measures.py"]
MEASURING += [f"models/{name}.py" for name in MODELS]
MEASURING += [f"{layer}/**/*.py" for layer in ("data", "cluster", "strategies", "measure")]
NOT_MEASURING = [
    # for `nodewise doctor`
    "cluster/doctor.py",
    "measure/step_memory.py",  # for `nodewise describe-model`
]
DIGESTS = Path("tests/measures.sha256")


def digests() -> str:
    """Return a line for each file of the measuring code: the digest of its code, and its path."""
    included, left_out = (
        {path for pattern in patterns for path in PACKAGE.glob(pattern)}
        for patterns in (MEASURING, NOT_MEASURING)
    )
    files = sorted(included - left_out)
    return "".join(f"{code_sha256(file.read_text('utf-8'))}  {file}\n" for file in files)


def code_sha256(source: str) -> str:
    """Return the digest of Python code that ignores comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(getattr(node, "body", None), list):
            node.body = [one for one in node.body if not _is_text(one)]
    return hashlib.sha256(ast.unparse(tree).encode()).hexdigest()


def _is_text(node: ast.stmt) -> bool:
    """Return whether a statement is only a text: a docstring, or one after a constant."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )


if __name__ == "__main__":
    DIGESTS.write_text(digests())
