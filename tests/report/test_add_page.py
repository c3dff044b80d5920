"""The examples of the page "Add something" of the site work as they are written.

Those of strategies, laws and importers are tested as another package's plug-ins, where these are.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import plugins

SCRIPT = """
import sys
from pathlib import Path

import my_answer, my_figure, my_page, my_rule
import pandas as pd
from nodewise.report.claim_rules import CLAIM_RULES, complete
from nodewise.report.figures import FIGURES
from rendering import render

study, out = map(Path, sys.argv[1:])
tables = {path.stem: pd.read_parquet(path) for path in (study / "tables").glob("*.parquet")}
figure = FIGURES["my-figure"]
assert "takes" in figure.draw(figure.rows(tables), {"model": "all"}).spec()["title"]["text"]
rule = CLAIM_RULES["shorter_than"]
assert (complete(rule(tables, {}, study="ntua", seconds=100.0))["most"] == 100).all()
render(study, site_dir=out / "site", out_dir=out / "docs")
"""


@pytest.mark.slow
def test_the_examples_of_figures_pages_answers_and_rules_become_parts_of_the_site(study, tmp_path):
    for name in ("my_figure", "my_page", "my_answer", "my_rule"):
        (tmp_path / f"{name}.py").write_text(plugins.example(f"{name}.py"))
    templates = tmp_path / "site/templates"
    for path in Path("site").iterdir():
        if path.name != "templates":
            (tmp_path / "site").mkdir(exist_ok=True)
            (tmp_path / "site" / path.name).symlink_to(path.resolve())
    templates.mkdir()
    for path in Path("site/templates").iterdir():
        (templates / path.name).symlink_to(path.resolve())
    (templates / "my_page.md.j2").write_text(plugins.example("my_page.md.j2"))
    path = os.pathsep.join([str(tmp_path), "tests"])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(study), str(tmp_path)],
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "The study has " in (tmp_path / "docs/my-page.md").read_text()
    assert "## How many points were measured? { #points }" in (
        tmp_path / "docs/findings.md"
    ).read_text().replace("&#63;", "?")
