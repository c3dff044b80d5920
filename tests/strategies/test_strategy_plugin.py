"""A strategy of another package: listed, measured, and shown on the site like any other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import plugins
import projects
from nodewise.results.record import read_record

DECLARATION = """
from nodewise.strategies.bytes_sent import ring
from nodewise.strategies.declaration import STRATEGIES, Declaration, Facts, Options


class Toy(Options):
    speed: int = 3


STRATEGIES.add(
    "toy",
    Declaration(
        module=__name__,
        title="Toy ring",
        max_nodes=2,
        exchange="ring",
        facts=Facts(
            synchronous="yes", holds="every toy", sends="2(n − 1)/n · S", needs="a toy box"
        ),
        bytes_sent=ring,
        options=Toy,
    ),
)
"""
WORKER = """
from nodewise.strategies.custom_loop import worker


class Strategy(worker.Strategy):
    def observations(self):
        return {"speed": [float(self._replica._job.options.speed)]}
"""
PAGE = """
{% extends "strategies/strategy.md.j2" %}
{% block step %}All toys move at once.{% endblock %}
"""
DIAGRAM = '<svg xmlns="http://www.w3.org/2000/svg"><title>A toy step</title></svg>'
RENDER = "import sys; from pathlib import Path; from rendering import render; \
render(Path(sys.argv[1]), out_dir=Path(sys.argv[2]))"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """Return a folder in which a package with the strategy `toy` is installed."""
    folder = tmp_path_factory.mktemp("plugin")
    package = folder / "toy_strategy"
    package.mkdir()
    (package / "__init__.py").write_text(DECLARATION)
    (package / "worker.py").write_text(WORKER)
    plugins.declare(folder, "nodewise.strategies", "toy_strategy")
    return folder


def run(plugin, *command, **variables):
    """Run Python where the plug-in is installed; return what it printed."""
    path = os.pathsep.join([str(plugin), "workflow", "tests"])
    environment = os.environ | {"PYTHONPATH": path} | variables
    done = subprocess.run(
        [sys.executable, *command],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


def test_it_is_listed_with_its_options(plugin):
    listed = run(plugin, "-m", "nodewise", "strategies", COLUMNS="200")
    (line,) = [line for line in listed.splitlines() if " toy " in line]
    assert "Toy ring" in line and "1 to 2" in line and "speed=3" in line


@pytest.mark.slow
def test_it_has_a_page_without_a_text_of_its_own_and_with_one(plugin, study, tmp_path):
    run(plugin, "-c", RENDER, str(study), str(tmp_path / "bare"))
    page = (tmp_path / "bare/strategies/toy.md").read_text()
    assert "# Toy ring\n" in page and "a toy box" in page and "Not described." in page
    assert "nw-ways" not in page
    assert "Toy ring" in (tmp_path / "bare/strategies/index.md").read_text()

    (plugin / "toy_strategy/page.md").write_text(PAGE)
    (plugin / "toy_strategy/diagram.svg").write_text(DIAGRAM)
    run(plugin, "-c", RENDER, str(study), str(tmp_path / "described"))
    page = (tmp_path / "described/strategies/toy.md").read_text()
    assert "All toys move at once." in page and DIAGRAM in page


@pytest.mark.slow
@pytest.mark.alone
def test_it_is_measured(plugin, tmp_path):
    project = projects.copy(tmp_path / "project")
    own = "--model models/templates/own_model.py:build --dataset data/templates/own_data.py:load"
    how = "--strategy toy --option speed=5 --nodes 2 --batch 32 --steps 4 --out toy.json"
    path = os.pathsep.join([str(plugin), str(project / "workflow")])
    started = projects.start(
        project, "nodewise", "measure", *f"{own} {how}".split(), PYTHONPATH=path
    )
    said = projects.finish(started)
    assert started.returncode == 0, said
    record = read_record(Path(project, "toy.json"))
    assert (record.status, record.cell.strategy, record.cell.exchange) == ("ok", "toy", "ring")
    assert [worker.observed for worker in record.result.workers] == 2 * [{"speed": [5.0]}]
    payload = record.result.payload_bytes
    assert all(w.bytes_sent / record.result.steps > 0.9 * payload for w in record.result.workers)
