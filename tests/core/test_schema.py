"""YAML and JSON files each have one reader, which reports every mistake in one line."""

import math
import os
import time
from pathlib import Path
from typing import Annotated

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from mistakes import user_error
from nodewise.core.errors import UserError
from nodewise.core.plain_yaml import NOT_YAML, load_yaml
from nodewise.core.schema import MOST_JSON_BYTES, MOST_YAML_BYTES, first_error, read_yaml
from nodewise.results.importers import read_rows
from nodewise.results.record import read_record
from nodewise.study.config import read_config

LAUGHS = "a0: &a0 [1, 2]\n" + "".join(
    f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]\n" for level in range(1, 30)
)
WRONG = {
    "a: 1\nb: 2\na: 3\n": "line 3: cannot be read as YAML (the key 'a' appears twice)",
    "[1, 2]: 3\n": "line 1: cannot be read as YAML (the key [1, 2] must be text)",
    "a: [1\n": "line 2: cannot be read as YAML (",
    "a: " + "[" * 100_000: "cannot be read as YAML (nested too deeply",
    "a: [" + "1, " * 30_000 + "1]": "cannot be read as YAML (more than the 20,000 values",
    LAUGHS: "cannot be read as YAML (more than the 20,000 values that are allowed)",
    "a: &a [*a]\n": "cannot be read as YAML (nested too deeply",
    "a: !!python/object/apply:os.system ['true']\n": "line 1: cannot be read as YAML (the tag '",
    '"a\\nb": 1\n': "line 1: cannot be read as YAML (the key 'a\\nb' must be printable)",
}


@pytest.mark.parametrize(
    "read", [lambda path: read_yaml(TypeAdapter(dict[str, int]), path), read_config]
)
@pytest.mark.parametrize(("text", "said"), WRONG.items(), ids=range(len(WRONG)))
def test_what_is_no_yaml_or_loses_a_key_is_told_in_one_line(tmp_path, read, text, said):
    path = tmp_path / "registry.yaml"
    path.write_text(text)
    assert user_error(read, path).startswith(f"{path}: {said}")


@pytest.mark.parametrize(
    "read", [lambda path: read_yaml(TypeAdapter(dict[str, int]), path), read_config, read_record]
)
def test_a_file_that_is_not_there_is_named_once(tmp_path, read):
    path = tmp_path / "none.yaml"
    assert user_error(read, path).startswith(f"{path}: cannot be read (No such file or directory)")


PLAIN_TEXTS = ["1:30", "yes", "NO", "010", "NaN", "1_000", "2026-11-25"]
PLAIN_TEXTS.append("1" * 5000)  # Python reads no number of so many digits
VALUES = {"-12": -12, "1.5": 1.5, "1e3": 1000.0, "-.inf": -math.inf, "'1'": "1"}
VALUES |= {"true": True, "False": False, "~": None, "": None}


@pytest.mark.parametrize(("text", "value"), [*((x, x) for x in PLAIN_TEXTS), *VALUES.items()])
def test_a_value_means_what_it_means_in_yaml_1_2(text, value):
    read = load_yaml(text)
    assert read == value
    assert type(read) is type(value)


@given(st.text(st.characters() | st.sampled_from("[]{}&*-:?!|>'\"#, \n"), max_size=60))
@example("!!timestamp x")
@example("&a {<<: *a}")
@settings(max_examples=200, deadline=None)
def test_any_text_is_yaml_or_refused(text):
    try:
        load_yaml(text)
    except NOT_YAML as error:
        assert str(error)


@pytest.mark.parametrize(
    ("read", "most"), [(read_config, MOST_YAML_BYTES), (read_record, MOST_JSON_BYTES)]
)
def test_a_huge_file_is_refused_unread(tmp_path, read, most):
    path = tmp_path / "huge"
    with path.open("wb") as file:
        os.truncate(file.fileno(), 10**12)
    began = time.process_time()
    line = user_error(read, path)
    assert time.process_time() - began < 1
    assert line == f"{path}: is too large, at most {most:,} bytes are allowed"


def test_deeply_nested_json_is_refused(tmp_path):
    path = tmp_path / "record.json"
    path.write_text("[" * 1_000_000)
    with pytest.raises(UserError, match=r"record\.json: the file: Invalid JSON: recursion limit"):
        read_record(path)


class Limited(BaseModel):
    seconds: Annotated[float, Field(gt=0, le=10)]


@pytest.mark.parametrize(
    ("value", "allowed"),
    [("nan", "a number"), (math.nan, "a number"), (11, "at most 10"), (0, "more than 0")],
)
def test_not_a_number_is_not_said_to_be_too_large(value, allowed):
    with pytest.raises(ValidationError) as caught:
        Limited(seconds=value)
    line = f"seconds: {value!r} is not allowed, must be {allowed}"
    assert first_error(caught.value) == line


def test_a_refusal_is_one_line_whatever_it_names():
    assert str(UserError("a\nb\u202e\x1b[0m.yaml: wrong")) == ("a\\nb\\u202e\\x1b[0m.yaml: wrong")
    cut = str(UserError(f"{'a/' * 3000}x.csv: is not there"))
    assert len(cut) < 250
    assert cut.endswith("/x.csv: is not there")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("reader", [read_config, read_record, read_rows])
def test_what_would_block_is_refused_at_once(tmp_path, reader):
    pipe = tmp_path / "pipe.csv"
    os.mkfifo(pipe)
    assert user_error(reader, pipe) == f"{pipe}: cannot be read (it is not a regular file)"
    kernel = Path("/proc/kmsg")  # a regular file for root, who may find messages in it
    assert user_error(reader, kernel).startswith(f"{kernel}: ")
