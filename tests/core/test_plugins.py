"""What other packages add works like the project's own: the examples of the page "Add something".

A strategy, an exchange, a law and a kind of cluster are installed in one folder, as by pip.
"""

import html
import json
import os
from pathlib import Path

import pytest

import make_records as make
import plugins
import projects

EXAMPLES = ["toy_cluster.py", "tagged/__init__.py", "tagged/worker.py"]
EXAMPLES += ["my_exchange.py", "my_law.py", "my_laws.yaml"]
GROUPS = {"toy_cluster": "clusters", "my_exchange": "exchanges", "my_law": "laws"}
GROUPS |= {"tagged": "strategies", "one_way": "strategies"}
ONE_WAY = """
from my_exchange import ONE_TO_ALL
from nodewise.strategies.declaration import STRATEGIES, Declaration

STRATEGIES.add(
    "one_way", Declaration(module=__name__, title="One way", max_nodes=8, exchange=ONE_TO_ALL)
)
"""
DIAGRAM = '<svg xmlns="http://www.w3.org/2000/svg"><title>A toy step</title></svg>'
RENDER = "import sys; from pathlib import Path; from rendering import render; \
render(Path(sys.argv[1]), out=Path(sys.argv[2]))"
USE = "import sys, pathlib, core.test_plugins as t; t.make_site(pathlib.Path(sys.argv[1]))"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """Return the folder in which the examples are installed."""
    folder = tmp_path_factory.mktemp("plugin")
    for package in ("tagged", "one_way"):
        (folder / package).mkdir()
    for name in EXAMPLES:
        (folder / name).write_text(plugins.example(name))
    (folder / "one_way/__init__.py").write_text(ONE_WAY)
    for module, group in GROUPS.items():
        plugins.declare(folder, f"nodewise.{group}", module)
    return folder


def test_a_strategy_is_listed_with_its_options(plugin):
    listed = plugins.run(plugin, "-m", "nodewise", "strategies", COLUMNS="200")
    (line,) = [line for line in listed.splitlines() if line.startswith("tagged ")]
    assert "Tagged ring" in line and "1 to 2" in line and " tag=3\n" in listed


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("{kind: toy, colours: red}", "cluster.colours: unknown key"),
        ("{kind: moon}", "'moon' is not allowed, must be one of emulated, local, slurm, ssh, toy"),
        ("{kind: toy}", "cluster.colour: there are only 2 toys"),
    ],
)
def test_the_settings_of_a_cluster_are_checked_by_its_class(plugin, tmp_path, settings, said):
    study, path = Path("config/smoke.yaml").read_text(), tmp_path / "study.yaml"
    path.write_text(study.replace("{kind: local}", settings))
    assert said in plugins.run(plugin, "-m", "nodewise", "plan", "--config", path, code=2)


@pytest.mark.slow
def test_a_strategy_is_measured_on_nodes_of_another_package(plugin, tmp_path):
    project = projects.copy(tmp_path / "project")
    own = "--model models/templates/own_model.py:build --dataset data/templates/own_data.py:load"
    how = f"--strategy tagged --option tag=5 --nodes 2 --batch 32 --steps 4 --cluster toy {own}"
    words = ("nodewise", "measure", *how.split(), "--out", "tagged.json")
    path = os.pathsep.join([str(plugin), str(project / "workflow")])
    projects.finish(projects.start(project, *words, PYTHONPATH=path))
    record = json.loads((project / "tagged.json").read_text())
    cell, result = record["cell"], record["result"]
    assert (record["status"], cell["strategy"], cell["exchange"]) == ("ok", "tagged", "ring")
    assert cell["cluster"] == {"kind": "toy", "colour": "red"}
    for worker in result["workers"]:
        assert worker["observed"] == {"tag": [5.0]}
        assert worker["bytes_sent"] / 4 > 0.9 * result["payload_bytes"]


def make_site(study: Path) -> None:
    """Make the site of a study on toys; print which exchanges its record and tables have."""
    from nodewise.core.cell import Cell
    from nodewise.results.record import read_record
    from nodewise.strategies import STRATEGIES
    from rendering import render

    declared = STRATEGIES["one_way"]
    about = {"strategy": "one_way"} | declared.fields(declared.checked({}, 4), "sharded")
    cells = [make.cell(n=n, batch=batch, **about) for batch in (64, 512) for n in (2, 3, 4)]
    toys, records = {"cluster": {"kind": "toy", "colour": "blue"}}, []
    for record in [*make.grid(batches=(64, 512), repeats=3), *map(make.record, cells)]:
        cell = Cell.model_validate(record.cell.model_dump() | toys)
        records.append(record.model_copy(update={"cell": cell}))
    tables = make.write_study(study, records, make.published())
    render(study)
    last = read_record(study / f"records/{records[-1].cell.id}.json")
    print(last.exchange.name, *sorted(set(tables["curves"]["exchange"])))


@pytest.mark.slow
def test_an_exchange_its_law_and_a_kind_of_cluster_are_on_the_site(plugin, tmp_path):
    said = plugins.run(plugin, "-c", USE, tmp_path).splitlines()[-1]
    assert said == "one_to_all none one_to_all ring"
    predictions = (tmp_path / "fits/predictions.csv").read_text()
    assert "/one_way" in predictions and ",one_to_all," in predictions
    docs = tmp_path / "docs"
    page = html.unescape((docs / "strategies/one-way.md").read_text())
    assert "(n − 1)/n · S" in page
    assert f'<data value="{4 * make.PARAMETERS / 2:g}"' in page  # what each of two nodes sends
    toys = [page for page in docs.rglob("*.md") if "blue toys" in page.read_text()]
    wanted = {"predictions.md", "results", "curves", "strategies", "studies"}
    assert {page.relative_to(docs).parts[0] for page in toys} >= wanted


@pytest.mark.slow
def test_a_strategy_has_a_page_without_a_text_of_its_own_and_with_one(plugin, study, tmp_path):
    plugins.run(plugin, "-c", RENDER, str(study), str(tmp_path / "bare"))
    page = (tmp_path / "bare/strategies/tagged.md").read_text()
    assert "# Tagged ring\n" in page and "nothing else" in page and "Not described." in page
    assert "nw-ways" not in page
    assert "Tagged ring" in (tmp_path / "bare/strategies/index.md").read_text()

    (plugin / "tagged/page.md").write_text(plugins.example("tagged/page.md"))
    (plugin / "tagged/diagram.svg").write_text(DIAGRAM)
    plugins.run(plugin, "-c", RENDER, str(study), str(tmp_path / "described"))
    page = (tmp_path / "described/strategies/tagged.md").read_text()
    assert "All workers exchange their gradients in a ring." in page and DIAGRAM in page
