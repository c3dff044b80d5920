"""METADATA of a model file is read without running the file; a mistake gives one clear line."""

from pathlib import Path

import pytest

from nodewise.core.errors import UserError
from nodewise.models.registry import read_metadata, registry

TOY = """
import a_package_that_is_not_there
METADATA = {
    "title": "Toy", "dataset": "mnist",
}
"""


def test_a_file_in_the_folder_is_a_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toy.py").write_text(TOY)
    monkeypatch.setattr("nodewise.models.registry.MODELS_DIR", tmp_path)
    assert registry.__wrapped__()["toy"].title == "Toy"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", "METADATA: title: required"),
        ("METADATA = [1]", "METADATA: "),
        ("METADATA = dict(title='Toy')", "METADATA must be a dictionary of plain values"),
        (TOY.replace('"mnist"', "3"), "METADATA: dataset: 3 is not allowed"),
        (TOY.replace("}", '"trainable": 10}'), "METADATA: trainable: "),
        ("METADATA = {", ":1: is not Python"),
    ],
)
def test_a_mistake_gets_one_line(tmp_path: Path, text: str, line: str) -> None:
    (tmp_path / "toy.py").write_text(text)
    with pytest.raises(UserError) as raised:
        read_metadata(tmp_path / "toy.py")
    assert f"{tmp_path / 'toy.py'}" in str(raised.value)
    assert line in str(raised.value)
    assert "\n" not in str(raised.value)
