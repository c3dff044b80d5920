"""The page "Bring your own" shows the templates unchanged; the commands that it names exist."""

import html
import re
from pathlib import Path

import markdown
import yaml

from nodewise.core.user_function import parse_spec
from nodewise.study.experiment import Experiment
from nodewise.study.single import Options, cell_of


def blocks(study: Path) -> list[str]:
    """Return the texts of the page's code blocks, as a reader sees them."""
    extensions = ["fenced_code", "pymdownx.snippets"]
    page = markdown.markdown((study / "docs/own.md").read_text(), extensions=extensions)
    found = re.findall(r"<pre><code[^>]*>(.*?)</code></pre>", page, re.DOTALL)
    return [html.unescape(block).rstrip() for block in found]


def test_the_templates_are_shown_as_they_are(study):
    shown = blocks(study)
    for path in ("models/templates/own_model.py", "data/templates/own_data.py"):
        assert Path(path).read_text().rstrip() in shown


def test_what_the_page_says_to_write_is_valid(study):
    command, experiment = blocks(study)[:2]
    read = yaml.safe_load(experiment)["experiments"]["mine"]
    declared = Experiment.model_validate(read).own_models["my_model"]
    parse_spec(declared.build)
    parse_spec(declared.dataset)
    words = command.replace("\\\n", " ").split()
    assert words[:2] == ["nodewise", "measure"]
    options = dict(zip(words[2::2], words[3::2], strict=True))
    fields = {name.removeprefix("--"): value for name, value in options.items()}
    numbers = {name: int(fields.pop(name)) for name in ("nodes", "batch")}
    cell = cell_of(Options(**fields, **numbers))
    assert (cell.build, cell.load) == (declared.build, declared.dataset)
