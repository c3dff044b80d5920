"""YAML files of this project are read by one reader, whose complaints are one line each."""

import pytest
from pydantic import TypeAdapter

from nodewise.config import read_config
from nodewise.errors import UserError
from nodewise.misfits import read_yaml

WRONG = {
    "a: 1\nb: 2\na: 3\n": "line 3: not YAML (the key 'a' is there twice)",
    "a: 1\n2024-01-01: 2\n": "line 2: not YAML (the key 2024-01-01 must be text)",
    "1: 2\n": "line 1: not YAML (the key 1 must be text)",
    "[1, 2]: 3\n": "line 1: not YAML (the key [1, 2] must be text)",
    "a: [1\n": "line 2: not YAML (",
    "a: 2024-13-01\n": "not YAML (month must be in 1..12",
    "a: \x00\n": "not YAML (",
}


@pytest.mark.parametrize(
    "read", [lambda path: read_yaml(TypeAdapter(dict[str, int]), path), read_config]
)
@pytest.mark.parametrize(("text", "said"), WRONG.items())
def test_what_is_no_yaml_or_loses_a_key_is_told_in_one_line(tmp_path, read, text, said):
    path = tmp_path / "registry.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as caught:
        read(path)
    assert str(caught.value).startswith(f"{path}: {said}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "read", [lambda path: read_yaml(TypeAdapter(dict[str, int]), path), read_config]
)
def test_a_file_that_is_not_there_is_named_once(tmp_path, read):
    path = tmp_path / "none.yaml"
    with pytest.raises(UserError) as caught:
        read(path)
    assert str(caught.value) == f"{path}: cannot be read (No such file or directory)"


def test_keys_may_be_merged_and_read_again_elsewhere(tmp_path):
    path = tmp_path / "merged.yaml"
    path.write_text("one: &one {a: 1, b: 2}\ntwo: {<<: *one, b: 3}\n")
    found = read_yaml(TypeAdapter(dict[str, dict[str, int]]), path)
    assert found == {"one": {"a": 1, "b": 2}, "two": {"a": 1, "b": 3}}
