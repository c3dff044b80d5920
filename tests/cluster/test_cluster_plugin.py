"""A kind of cluster from another package is checked, measured and shown on the site."""

from pathlib import Path

import pytest

import plugins

RENDER = """
import sys
from pathlib import Path
import make_records as make
from rendering import render
from nodewise.core.cell import Cell
folder = Path(sys.argv[1])
cells = [
    record.model_copy(update={"cell": Cell.model_validate(
        record.cell.model_dump() | {"cluster": {"kind": "toy", "colour": "blue"}})})
    for record in make.grid(batches=(64,), repeats=3)
]
make.write_study(folder, cells, make.published())
render(folder)
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """Return a folder in which a package that provides the kind `toy` is installed."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "toy_cluster.py").write_text(plugins.example("toy_cluster.py"))
    plugins.declare(folder, "nodewise.clusters", "toy_cluster")
    return folder


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("{kind: toy, colours: red}", "cluster.colours: unknown key"),
        (
            "{kind: moon}",
            "cluster.kind: 'moon' is not allowed, must be one of emulated, local, slurm, ssh, toy",
        ),
        ("{kind: toy}", "cluster.colour: there are only 2 toys"),
    ],
)
def test_a_study_s_settings_are_checked_by_its_class(plugin, tmp_path, settings, said):
    study, path = Path("config/smoke.yaml").read_text(), tmp_path / "study.yaml"
    path.write_text(study.replace("{kind: local}", settings))
    assert said in plugins.run(plugin, "-m", "nodewise", "plan", "--config", path, code=2)


@pytest.mark.slow
def test_its_nodes_are_on_the_site(plugin, tmp_path):
    plugins.run(plugin, "-c", RENDER, tmp_path)
    docs = tmp_path / "docs"
    pages = [page for page in docs.rglob("*.md") if "blue toys" in page.read_text()]
    wanted = {"predictions.md", "results", "curves", "strategies", "studies"}
    assert {page.relative_to(docs).parts[0] for page in pages} >= wanted


@pytest.mark.slow
def test_it_is_measured(plugin, tmp_path):
    project = tmp_path / "project"
    how = "--strategy single --nodes 1 --batch 32 --steps 4 --cluster toy --out toy.json"
    plugins.measure(plugin, project, how)
    assert '"cluster":{"kind":"toy","colour":"red"}' in (project / "toy.json").read_text()
