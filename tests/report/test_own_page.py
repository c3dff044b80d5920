"""The page "Bring your own" shows the templates unchanged; the commands that it names exist."""

import html
import re
from pathlib import Path

import markdown
import yaml

from nodewise.core.user_function import parse_spec
from nodewise.study.experiment import Experiment


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
    for spec in (declared.build, declared.dataset):
        assert parse_spec(spec).text in command.split()
