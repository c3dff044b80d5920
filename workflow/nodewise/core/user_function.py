"""Find and call the function, in a file or a module, that returns a user's own model or data.

A spec names the function: `path/to/file.py:function` or `package.module:function`. Checking a spec
does not run any of the user's code; `Function` runs it. An error in the user's code becomes a
one-line message with the user's own file and line.
"""

import ast
import hashlib
import importlib
import importlib.util
import os
import re
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple, TypeVar

from pydantic import TypeAdapter, ValidationError

from nodewise.core.cell import Spec
from nodewise.core.errors import Terminated, UserError
from nodewise.core.schema import read_bytes

_MOST_BYTES = 10_000_000
_SLOW_S = 10.0
_OURS = Path(__file__).parents[1]
Result = TypeVar("Result")


class ParsedSpec(NamedTuple):
    """The place of a user's function.

    Args:
        text: the spec itself. A file in it is relative to the project's folder.
        file: file of the function; None if the spec names a module.
        module: name under which the function's module is imported.
        function: name of the function.
    """

    text: str
    file: Path | None
    module: str
    function: str


def parse_spec(spec: str) -> ParsedSpec:
    """Parse and check the spec of a function. None of the user's code is run.

    Args:
        spec: the spec; a file in it may be absolute.

    Raises:
        UserError: the form is wrong, or there is no such file, module or function.
    """
    if spec.endswith(".keras"):
        raise UserError(
            f"{spec}: name a function in a file of yours, with: def build(): "
            f"return keras.models.load_model({spec!r})"
        )
    try:
        text = TypeAdapter(Spec).validate_python(relative_spec(spec))
    except (ValidationError, ValueError) as error:
        raise UserError(
            f"{spec!r}: must be path/to/file.py:function or package.module:function, with at most "
            "200 letters without accents, digits and . _ - /; rename the file or folder, or run "
            "nodewise inside the folder of the file"
        ) from error
    where, _, function = text.partition(":")
    if not _is_path(where):
        if _file_of(where) is None:
            raise UserError(
                f"{spec}: there is no module {where!r} of Python code, installed or in this folder"
            )
        return ParsedSpec(text, None, where, function)
    file = Path(where)
    if file.suffix != ".py":
        raise UserError(f"{spec!r}: {file.name!r} is not a Python file (.py)")
    if not file.is_file():
        raise UserError(f"{spec}: there is no file {file}")
    code = read_bytes(file, _MOST_BYTES).decode(errors="replace")
    if not re.search(rf"\b{function}\b|import \*", code):
        raise UserError(f"{file}: has no function {function!r}")
    stem = re.sub(r"\W", "_", file.stem)
    return ParsedSpec(text, file, with_digest(f"nodewise_own_{stem}", text), function)


def relative_spec(spec: str) -> str:
    """Make the file in a spec relative to the current folder; return other specs unchanged."""
    where, colon, function = spec.rpartition(":")
    return f"{os.path.relpath(where)}{colon}{function}" if _is_path(where) else spec


def _is_path(where: str) -> bool:
    return where.endswith(".py") or "/" in where


def own_model(build: str, dataset: str) -> str:
    """Return a unique name for a user's own model.

    The name does not depend on how the paths in the specs are written.

    Args:
        build: spec of the model.
        dataset: name of its dataset, or spec of a user's own data.
    """
    build, dataset = relative_spec(build), relative_spec(dataset)
    where = build.partition(":")[0]
    last = Path(where).stem if _is_path(where) else where.rpartition(".")[2]
    name = re.sub(r"[^a-z0-9]+", "_", last.lower()).strip("_")[:40]
    return with_digest(f"own_{name}", f"{build} {dataset}")


def source_files(spec: str) -> list[str]:
    """Return the file that a spec names, and the files in its folder that it imports.

    Imports are followed transitively. None of the user's code is run.

    Returns:
        The files, the one of the spec first; empty if the module of the spec is not found.
    """
    where = spec.partition(":")[0]
    first = Path(where) if _is_path(where) else _file_of(where)
    files = [first] if first else []
    for file in files:  # which grows
        siblings = (file.with_name(f"{name}.py") for name in sorted(_imported_names(file)))
        files += [one for one in siblings if one.is_file() and one not in files]
    return list(map(str, files))


def code_sha256(files: Iterable[str]) -> str:
    """Return the digest of the code of files; comments and layout of Python files do not matter."""
    digest = hashlib.sha256()
    for content in (Path(file).read_bytes() for file in files if Path(file).is_file()):
        try:
            digest.update(ast.unparse(ast.parse(content)).encode())
        except (SyntaxError, ValueError):
            digest.update(content)
    return digest.hexdigest()


def _file_of(module: str) -> Path | None:
    """Return the file of a module, relative to the current folder if it is inside; None if none."""
    inside = module.replace(".", "/")
    for folder in (Path(), *map(Path, sys.path)):
        for file in (folder / inside / "__init__.py", folder / f"{inside}.py"):
            if file.is_file():
                return file
    return None


def _imported_names(file: Path) -> set[str]:
    """Return the names, without their packages, of all modules that a file may import."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return set()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.name.rpartition(".")[2] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.rpartition(".")[2])
    return names


class Function:
    """An imported user function, which can be called any number of times.

    While it is imported and called, Python looks for modules in the folder of its file first, as
    for a script. If the spec names a module, that is the project's folder. The user's code sees no
    arguments of ours. If it runs for 10 s, stderr says so. `made_at_import` has the names of
    its module and their values right after the import.
    """

    def __init__(self, parsed: ParsedSpec) -> None:
        """Import the function.

        Raises:
            UserError: its module cannot be imported, or has no such function.
        """
        self.parsed = parsed
        self.made_at_import = dict(vars(self._run("importing", self._imported)))
        function = self.made_at_import.get(parsed.function)
        if not callable(function):
            raise UserError(f"{parsed.text}: there is no function {parsed.function!r}")
        self._function = function

    def __call__(self) -> object:
        """Call the function without arguments.

        Raises:
            UserError: the function failed; the message says how and where.
        """
        return self._run("calling", self._function)

    def _imported(self) -> ModuleType:
        file, module = self.parsed.file, self.parsed.module
        return import_file(file, module) if file else importlib.import_module(module)

    def _run(self, doing: str, call: Callable[[], Result]) -> Result:
        parsed = self.parsed
        told = f"still {doing} {parsed.text} after {_SLOW_S:.0f} s"
        slow = threading.Timer(_SLOW_S, print, [told], {"file": sys.stderr, "flush": True})
        slow.daemon = True
        arguments, sys.argv = sys.argv, [str(parsed.file or parsed.module)]
        slow.start()
        try:
            with user_errors(parsed):
                return call()
        finally:
            slow.cancel()
            sys.argv = arguments


@contextmanager
def user_errors(parsed: ParsedSpec) -> Iterator[None]:
    """Run a block that calls the user's code at `parsed`, and translate its errors.

    Raises:
        UserError: the code raised an error or tried to exit. The message is one line with the
            user's own file and line.
    """
    folder = str((parsed.file.parent if parsed.file else Path.cwd()).resolve())
    sys.path.insert(0, folder)
    try:
        yield
    except (UserError, KeyboardInterrupt, Terminated):
        raise
    except BaseException as error:  # also SystemExit and its subclasses in libraries
        reason = f"{type(error).__name__}: {_first_line(error)}{_line_of(error, folder)}"
        raise UserError(f"{parsed.text}: {reason}") from error
    finally:
        sys.path.remove(folder)


def import_file(file: Path, name: str) -> ModuleType:
    """Import a Python file as a module of the given name, again at each call."""
    spec = importlib.util.spec_from_file_location(name, file.resolve())
    if spec is None or spec.loader is None:
        raise UserError(f"{file}: is not a Python file")
    module = importlib.util.module_from_spec(spec)
    # as importlib's documentation says; dataclasses and Keras look up modules in sys.modules
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _first_line(error: BaseException) -> str:
    """Return the most useful line of an error's message.

    Usually this is the first line. In messages of Keras it is the line in bold. Messages of
    AutoGraph begin with a traceback, so it is their last line.
    """
    text = str(error)
    if text.startswith("in user code:"):
        text = text.strip().splitlines()[-1].strip().removeprefix(f"{type(error).__name__}: ")
    bold = re.search(r"\x1b\[1m(.+)", text)
    lines = (bold.group(1).removesuffix("\x1b[0m") if bold else text).strip().splitlines()
    return lines[0][:300] if lines else "(no message)"


def _line_of(error: BaseException, folder: str) -> str:
    """Return ` (file:line)` of the innermost line of the user's own code in a traceback."""
    steps = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        steps.append((error.filename, error.lineno))
    for name, line in reversed(steps):
        path = Path(name)
        installed = "site-packages" in path.parts or _OURS in path.parents
        if path.is_relative_to(folder) and not installed:
            return f" ({os.path.relpath(path)}:{line})"
    return ""


def own_dataset_name(load: str) -> str:
    """Return the name of the dataset that is prepared from the spec `load`; unique per spec."""
    plain = re.sub(r"[^a-z0-9]+", "_", load.lower()).strip("_")
    return with_digest(f"own_{plain[-40:].strip('_')}", load)


def with_digest(name: str, content: str) -> str:
    """Make `name` unique by appending the first 8 digits of the SHA-256 of `content`."""
    return f"{name}_{hashlib.sha256(content.encode()).hexdigest()[:8]}"
