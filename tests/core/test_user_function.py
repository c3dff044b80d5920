"""Specs of users' own functions: which are allowed, and how all others are reported."""

import sys
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from mistakes import user_error
from nodewise.core import user_function
from nodewise.core.cell import Spec
from nodewise.core.errors import UserError
from nodewise.core.user_function import Function, code_sha256, parse_spec, source_files


@pytest.fixture(autouse=True)
def in_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def write(path: str, text: str) -> str:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    return path


def error_of(spec: str) -> str:
    def call() -> object:
        return Function(parse_spec(spec))()

    return user_error(call)


def test_a_module_s_function_is_called_and_the_project_folder_is_searched():
    write("mypackage_a/__init__.py", "")
    write("mypackage_a/inner.py", "def build():\n    return 7\n")
    assert Function(parse_spec("mypackage_a.inner:build"))() == 7


def test_files_beside_the_user_s_file_can_be_imported_also_while_the_function_runs():
    write("mine/helper_b.py", "VALUE = 1\n")
    write("mine/late_b.py", "VALUE = 10\n")
    write(
        "mine/some.py",
        "import helper_b\n\ndef build():\n    import late_b\n"
        "    return helper_b.VALUE + late_b.VALUE\n",
    )
    before = list(sys.path)
    assert Function(parse_spec("mine/some.py:build"))() == 11
    assert sys.path == before


def test_a_file_is_kept_relative_to_the_project_so_that_a_record_can_name_it(tmp_path):
    write("mine/some.py", "def build(): ...\n")
    place = parse_spec(f"{tmp_path}/mine/some.py:build")
    assert place.text == "mine/some.py:build"
    TypeAdapter(Spec).validate_python(place.text)


def test_no_code_of_the_user_runs_while_a_spec_is_checked():
    write("some.py", "open('trace', 'w').close()\n\ndef build(): ...\n")
    parse_spec("some.py:build")
    assert not Path("trace").exists()


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("some.py", "must be path/to/file.py:function or package.module:function"),
        ("my/m.keras", "def build(): return keras.models.load_model('my/m.keras')"),
        ("some.py:a-b", "must be path/to/file.py:function"),
        ("missing.py:build", "there is no file missing.py"),
        ("some.txt/x:build", "'x' is not a Python file (.py)"),
        ("no_such_module_c:build", "there is no module 'no_such_module_c'"),
        ("some.py:other", "some.py: has no function 'other'"),
        ("with space.py:build", "rename the file or folder, or run nodewise inside the folder"),
        ("broken.py:build", "IndentationError: "),
        ("nested.py:build", "nested.py:build: "),
        ("some.py:constant", "there is no function 'constant'"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(spec, said):
    write("some.py", "constant = 1\n\ndef build(): ...\n")
    write("with space.py", "def build(): ...\n")
    write("broken.py", "def build():\nreturn 1\n")
    write("nested.py", "(" * 100_000 + "build")
    assert said in error_of(spec)


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("def build():\n    x = 1\n    return x / 0\n", "ZeroDivisionError: division by zero (m"),
        ("import nowhere_d\n\ndef build(): ...\n", "No module named 'nowhere_d' (mine/some.py:1)"),
        ("import sys\n\ndef build():\n    sys.exit(3)\n", "SystemExit: 3 (mine/some.py:4)"),
        ("import json\n\ndef build():\n    json.loads('{')\n", "(mine/some.py:4)"),
        ("def build():\n    raise ValueError('a\\nb\\nc')\n", "ValueError: a (mine/some.py:2)"),
        ("import helper_e\n\ndef build(): ...\n", "(mine/helper_e.py:4)"),
    ],
)
def test_the_user_s_own_mistake_is_told_with_file_and_line(code, said):
    write("mine/some.py", code)
    write("mine/helper_e.py", "def f():\n    pass\n\nthis is not python\n")
    assert said in error_of("mine/some.py:build")


def test_the_files_of_a_spec_are_its_own_and_those_beside_it_that_it_imports():
    write("mine/nets.py", "import layers_f\nimport numpy\nfrom mine.blocks_f import block\n")
    write("mine/layers_f.py", "from .deep_f import deeper\n")
    write("mine/blocks_f.py", "import nets\n")
    write("mine/deep_f.py", "not python")
    write("mine/other_f.py", "")
    files = {f"mine/{name}.py" for name in ("nets", "layers_f", "blocks_f", "deep_f")}
    assert set(source_files("mine/nets.py:build")) == files
    assert set(source_files("mine.nets:build")) == files
    assert source_files("nowhere_f.nets:build") == []
    # Snakemake reports a missing file.
    assert source_files("mine/lost.py:build") == ["mine/lost.py"]
    assert source_files("json.decoder:JSONDecoder")[0].endswith("json/decoder.py")


def test_comments_are_no_code():
    digests = set()
    for code in ("def f():\n    return 1\n", "# new\ndef f():  # here\n    return (1)\n", "x = 1"):
        write("mine/digest_f.py", code)
        digests.add(code_sha256(["mine/digest_f.py"]))
    assert len(digests) == 2


@given(st.text(max_size=40) | st.text(max_size=20).map(lambda text: f"{text}.py:build"))
@example("\0.py:build")
def test_any_text_is_a_place_or_one_line(text):
    try:
        place = parse_spec(text)
    except UserError as error:
        assert str(error)
        assert "\n" not in str(error)
    else:
        assert place.function.isidentifier()


def test_a_user_s_code_sees_no_arguments_of_ours(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["nodewise", "measure", "--nodes", "2"])
    write(
        "asks.py",
        "import argparse\n\nasked = argparse.ArgumentParser().parse_args()\n\n"
        "def build():\n    import sys\n    return sys.argv\n",
    )
    assert Function(parse_spec("asks.py:build"))() == ["asks.py"]
    assert sys.argv[0] == "nodewise"


def test_code_that_runs_for_long_is_named(monkeypatch, capsys):
    monkeypatch.setattr(user_function, "_SLOW_S", 0.05)
    write("slow.py", "import time\ntime.sleep(0.5)\n\ndef build():\n    time.sleep(0.5)\n")
    slow = Function(parse_spec("slow.py:build"))
    assert capsys.readouterr().err == "still importing slow.py:build after 0 s\n"
    slow()
    assert capsys.readouterr().err == "still calling slow.py:build after 0 s\n"
