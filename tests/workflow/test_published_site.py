"""The published site is built from committed records only, without TensorFlow."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

import make_calibration
import make_records as make
import projects
from nodewise.core.schema import json_text
from nodewise.report.page import curve_page
from nodewise.results.record import record_json
from projects import CONFIG, finish, start, write_study

pytestmark = pytest.mark.slow

FOLDERS = ["data/records/here/one", "data/records/there/two"]
STUDY = {"name": "small", "title": "Committed records", "records": FOLDERS}
CELLS = [
    [make.cell(n=nodes, batch=batch) for nodes in (1, 2, 3) for batch in (64, 256)],
    [make.cell(experiment="others", n=nodes, repeat=1) for nodes in (1, 2)],
]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Path:
    """Return a built copy of the project with records; its Python finds no TensorFlow."""
    folder = tmp_path_factory.mktemp("published")
    project = projects.copy(folder / "project")
    shutil.rmtree(project / "data/records")
    for records, cells in zip(FOLDERS, CELLS, strict=True):
        make.write([make.record(cell) for cell in cells], project / records)
    calibration = json_text(make_calibration.calibration())
    (project / FOLDERS[1] / "calibration.json").write_text(calibration)
    write_study(project, STUDY)
    for name in ("tensorflow", "keras"):
        hidden = folder / "hidden" / name
        hidden.mkdir(parents=True)
        (hidden / "__init__.py").write_text("raise ImportError('hidden')\n")
    run = start(project, "python", "-c", "import tensorflow", PYTHONPATH=str(folder / "hidden"))
    assert "hidden" in finish(run, 1)
    build(project)
    return project


def build(project: Path) -> set[str]:
    """Build the site; return the names of the rules that ran."""
    path = f"{project / 'workflow'}:{project.parent / 'hidden'}"
    command = ("snakemake", "--configfile", CONFIG, "--cores", "all", "--verbose")
    said = finish(start(project, *command, PYTHONPATH=path, NODEWISE_DATASETS=""))
    return set(re.findall(r"^(?:local)?rule (\w+):", said, re.MULTILINE)) - {"all"}


def test_every_record_has_its_page_and_only_reports_are_results(project):
    for cell in [cell for cells in CELLS for cell in cells]:
        assert (project / f"build/site/records/{cell.id}.json").is_file()
        assert (project / "build/site" / curve_page(cell.model, cell.strategy_name)).is_file()
    assert {path.name for path in (project / "results").iterdir()} == {"small"}
    assert not (project / "results/small/records").exists()
    assert not (project / "results/small/calibration").exists()
    assert len(list((project / "build/site").glob("calibration/study-*.json"))) == 1


LAYERS = ["core", "results", "predict", "models", "data", "cluster", "strategies", "study"]
REPORT = [*LAYERS, "report"]
IMPORTED = {"build_tables": LAYERS, "build_fits": LAYERS, "build_site": REPORT}


def test_a_step_runs_again_if_a_line_changes_in_any_layer_that_it_imports(project, tmp_path):
    copy = shutil.copytree(project, tmp_path / "project", symlinks=True)
    layers = (*REPORT, "measure", "cli")
    files = {layer: f"workflow/nodewise/{layer}/__init__.py" for layer in layers}
    for path in files.values():
        with (copy / path).open("a") as file:
            file.write("# edited\n")
    said = projects.snakemake(copy, "--dry-run", "--verbose")
    for rule, layers in IMPORTED.items():
        step = said.partition(f"\nrule {rule}:")[2].partition("\n\n")[0]
        inputs = re.search("input: (.*)", step)[1].split(", ")
        assert {*files.values()} & {*inputs} == {files[layer] for layer in layers}, rule
    why = re.search(r"rule build_tables:(?:\n .*)*?\n +reason: Updated input files: (.*)", said)[1]
    assert {*why.split(", ")} == {files[layer] for layer in LAYERS}


def test_a_changed_record_is_on_the_site_and_nothing_of_a_removed_one(project):
    cell = CELLS[1][0]
    path = project / FOLDERS[1] / f"{cell.id}.json"
    failed = record_json(make.failed(cell, "lost & found"))
    path.write_text(failed)
    (removed,) = (cell for cell in CELLS[0] if (cell.nodes, cell.batch) == (3, 256))
    page = project / f"build/site/records/{removed.id}.json"
    assert page.is_file()
    (project / FOLDERS[0] / f"{removed.id}.json").unlink()
    assert build(project) == set(IMPORTED)
    curve = project / "build/site" / curve_page(cell.model, cell.strategy_name)
    assert "lost &" in curve.read_text()
    assert path.read_text() == failed  # The record is unchanged.
    assert not page.exists()
    search = (project / "build/site/search/search_index.json").read_text()
    assert removed.id not in search
    assert build(project) == set()  # nothing changed, nothing runs


def test_a_changed_title_of_a_study_measured_before_is_on_the_site(project):
    study = projects.small_study(name="one", title="Steps anew")
    study["experiments"] = {CELLS[0][0].experiment: study["experiments"]["steps"]}
    (project / "config/one.yaml").write_text(yaml.safe_dump(study))
    assert build(project) == {"build_site"}
    texts = [path.read_text() for path in (project / "build/site").rglob("*.html")]
    assert any("Steps anew" in text for text in texts)
    assert any("use <code>config&#47;one.yaml</code>" in text for text in texts)
