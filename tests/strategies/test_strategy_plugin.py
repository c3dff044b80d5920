"""A strategy from another package is listed, measured and shown on the site like any other."""

from pathlib import Path

import pytest

import plugins
from nodewise.results.record import read_record

DIAGRAM = '<svg xmlns="http://www.w3.org/2000/svg"><title>A toy step</title></svg>'
RENDER = "import sys; from pathlib import Path; from rendering import render; \
render(Path(sys.argv[1]), out=Path(sys.argv[2]))"


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """Return a folder in which the example of the page "Add something" is installed."""
    folder = tmp_path_factory.mktemp("plugin")
    package = folder / "tagged"
    package.mkdir()
    for name in ("__init__.py", "worker.py"):
        (package / name).write_text(plugins.example(f"tagged/{name}"))
    plugins.declare(folder, "nodewise.strategies", "tagged")
    return folder


def test_it_is_listed_with_its_options(plugin):
    listed = plugins.run(plugin, "-m", "nodewise", "strategies", COLUMNS="200")
    (line,) = [line for line in listed.splitlines() if line.startswith("tagged ")]
    assert "Tagged ring" in line and "1 to 2" in line and " tag=3\n" in listed


@pytest.mark.slow
def test_it_has_a_page_without_a_text_of_its_own_and_with_one(plugin, study, tmp_path):
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


@pytest.mark.slow
def test_it_is_measured(plugin, tmp_path):
    project = tmp_path / "project"
    how = "--strategy tagged --option tag=5 --nodes 2 --batch 32 --steps 4 --out tagged.json"
    plugins.measure(plugin, project, how)
    record = read_record(Path(project, "tagged.json"))
    assert (record.status, record.cell.strategy, record.cell.exchange) == ("ok", "tagged", "ring")
    assert [worker.observed for worker in record.result.workers] == 2 * [{"tag": [5.0]}]
    payload = record.result.payload_bytes
    assert all(w.bytes_sent / record.result.steps > 0.9 * payload for w in record.result.workers)
