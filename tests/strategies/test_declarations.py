"""Every registered strategy is declared completely, without TensorFlow."""

import json

import pytest

import projects
from nodewise.strategies import STRATEGIES

EACH = pytest.mark.parametrize("name", STRATEGIES)

READ = """
import json, sys
import nodewise.report.pages.strategies
from nodewise.strategies import STRATEGIES
print(json.dumps([list(STRATEGIES), sorted({name.partition(".")[0] for name in sys.modules})]))
"""


def test_declarations_and_their_pages_need_no_tensorflow():
    names, imported = json.loads(projects.python("-c", READ))
    assert names == list(STRATEGIES)
    assert not {"tensorflow", "keras"} & set(imported)


@EACH
def test_a_declaration_says_everything_that_its_page_shows(name):
    declared = STRATEGIES[name]
    assert declared.title and declared.needs
    assert [one for one in STRATEGIES if STRATEGIES[one].title == declared.title] == [name]
    assert declared.module == f"nodewise.strategies.{name}"
    assert (declared.folder / "worker.py").is_file()
    assert declared.checked({}, declared.max_nodes) == declared.options()
    with pytest.raises(ValueError, match=r"^nodes: allowed"):
        declared.checked({}, declared.max_nodes + 1)
