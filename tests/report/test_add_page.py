"""The examples of the pages "Add something" and "Add to the site" work as they are printed.

Other tests use examples as another package's plug-ins: core/test_plugins.py those of strategies,
exchanges, laws and kinds of clusters, results/test_importers.py that of an importer.
"""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import make_datasets
import plugins

SITE = "add-to-site.md"
SCRIPT = """
import sys
from pathlib import Path

import my_figure, my_page
from nodewise.report.context import read_context
from rendering import CONFIG, render

study, out = map(Path, sys.argv[1:])
charts = read_context(CONFIG, study).pick("my_figure", model="fashion_cnn")
assert charts and all("takes" in chart.finding for chart in charts)
render(study, site_dir=out / "site", out=out / "docs")
"""


@pytest.mark.slow
def test_the_examples_of_figures_and_pages_become_parts_of_the_site(study, tmp_path):
    for name in ("my_figure", "my_page"):
        (tmp_path / f"{name}.py").write_text(plugins.example(f"{name}.py", SITE))
    templates = Path("site/templates")
    for folder in (templates.parent, templates):
        (tmp_path / folder).mkdir()
        for path in {*folder.iterdir()} - {templates}:
            (tmp_path / path).symlink_to(path.resolve())
    (tmp_path / templates / "my_page.md.j2").write_text(plugins.example("my_page.md.j2", SITE))
    plugins.run(tmp_path, "-c", SCRIPT, study, tmp_path)
    assert "The study has " in (tmp_path / "docs/my-page.md").read_text()


def test_the_example_of_a_dataset_is_prepared(tmp_path):
    names = [f"my_pictures/{kind}/{number}.jpg" for kind in ("cat", "dog") for number in range(5)]
    picture = make_datasets.jpeg((200, 80, 40), (32, 32, 3))
    pictures = make_datasets.zipped(dict.fromkeys(names, picture))
    (entry,) = yaml.safe_load(plugins.example("my_pictures.yaml")).values()
    (release,) = entry["releases"]
    release["file"] |= make_datasets.file("my_pictures.zip", pictures, ())
    files = {"sample/my_pictures.zip": pictures}
    dataset = make_datasets.Sample(tmp_path, entry, files).load(source="official")
    assert dataset.train[0].shape == (8, 32, 32, 3)
    assert set(dataset.train[1].tolist() + dataset.test[1].tolist()) == {0, 1}


@pytest.mark.slow
def test_the_example_of_a_model_can_be_described(tmp_path, monkeypatch):
    from nodewise.models import registry
    from nodewise.models.describe import describe

    (tmp_path / "my_model.py").write_text(plugins.example("my_model.py"))
    monkeypatch.setattr(registry, "MODELS_DIR", tmp_path)
    assert registry.read_metadata(tmp_path / "my_model.py").title == "My network"
    described = describe("my_model")
    assert described.trainable == (28 * 28 + 1) * 64 + (64 + 1) * 10
    assert described.stages == 4


PAGES = "".join(Path("site/pages", page).read_text() for page in ("add.md", SITE))
PYTHON = re.compile(r"\n`([\w/]+\.py)` [^`]*?:\n\n```python\n(.*?)```", re.DOTALL)
EXAMPLES = dict(PYTHON.findall(PAGES))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_pass_the_checks_of_the_project(name):
    code, ruff = EXAMPLES[name], Path(sys.executable).with_name("ruff")
    # The page leaves out the folders of what could also be another package's.
    folder = "" if name.startswith(("models/", "workflow/")) else "workflow/nodewise/strategies/"
    for check in (["check"], ["format", "--check"]):
        command = [ruff, *check, f"--stdin-filename={folder}{name}", "-"]
        done = subprocess.run(command, input=code, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout
