"""The workflow as users see it: a small study runs, and a change reruns only what it affects.

One copy of the project is run once, with real workers. What a change would rerun is determined by
dry runs in copies of that copy.
"""

import json
import re
import shutil
import signal
from pathlib import Path

import pytest

import make_calibration
import projects
from nodewise.core.files import write_text
from nodewise.core.schema import json_text
from nodewise.core.user_function import own_dataset_name
from nodewise.models.facts import read_own
from nodewise.results.record import read_record
from projects import CONFIG, finish, snakemake, start, start_snakemake, write_study
from snakemake_logger_plugin_nodewise import STOPPED
from traces import wait_until

pytestmark = pytest.mark.slow

STUDY = projects.small_study(
    models=["fashion_cnn", "fashion_mlp"],
    strategies={"single": {"nodes": [1]}, "multi_worker_mirrored": {"nodes": [2]}},
    batches=[32],
    extent={"warmup_steps": 1, "steps": 4, "split_steps": 2},
)
STEPS = STUDY["experiments"]["steps"]
STUDY["experiments"]["whole"] = STEPS | {
    "study": "strategies",
    "models": ["fashion_mlp"],
    "strategies": {"single": {"nodes": [1]}},
    "batches": [512],
    "extent": {"warmup_steps": 1, "epochs": 1, "split_steps": 2},
}
OWN = {"build": "models/templates/own_model.py:build", "dataset": "data/templates/own_data.py:load"}
# a batch larger than what own data turns out to have
STUDY["experiments"]["impossible"] = STEPS | {
    "models": [],
    "own_models": {"mine": OWN},
    "strategies": {"single": {"nodes": [1]}},
    "batches": [4000],
}
STEPS_CELLS = {
    f"steps/{model}/{strategy}/batch~32/nodes~{nodes}/repeat~0"
    for model in ("fashion_cnn", "fashion_mlp")
    for strategy, nodes in (("single", 1), ("multi_worker_mirrored", 2))
}
WHOLE = "whole/fashion_mlp/single/batch~512/nodes~1/repeat~0"
IMPOSSIBLE = "impossible/mine/single/batch~4000/nodes~1/repeat~0"
ALL_CELLS = STEPS_CELLS | {WHOLE, IMPOSSIBLE}
FOLLOWING = {"build_tables", "build_fits", "build_site", "all"}


def would_run(project: Path, *arguments: str) -> tuple[set[str], set[str]]:
    """Return the cells that a run would measure, and the other rules that it would run."""
    told = snakemake(project, "--dry-run", "--verbose", *arguments)
    rules = set(re.findall(r"^(?:local)?rule (\w+):", told, re.MULTILINE))
    cells = set(re.findall(r"^ +wildcards: cell=(\S+)", told, re.MULTILINE))
    return cells, rules - {"measure_cell"}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return a project whose study has been run, and what Snakemake printed."""
    project = projects.copy(tmp_path_factory.mktemp("study") / "project")
    for large in ("bert_base", "densenet121", "resnet50"):  # Describing these models takes longest.
        (project / f"models/{large}.py").unlink()
    write_study(project, STUDY)
    return project, snakemake(project, KERAS_BACKEND="jax")


@pytest.fixture
def finished(run):
    return run[0]


@pytest.fixture
def project(finished, tmp_path):
    """Return a copy that a test may change, with modification times, which Snakemake compares."""
    return shutil.copytree(finished, tmp_path / "project", symlinks=True)


def edit(path: Path, line: str = "# edited") -> None:
    path.write_text(f"{path.read_text()}\n{line}\n")


def test_every_cell_has_its_record_and_is_on_the_site(finished):
    folder = finished / "results/small/records"
    records = {cell: read_record(folder / f"{cell}.json") for cell in ALL_CELLS}
    for cell in STEPS_CELLS:
        assert records[cell].status == "ok", records[cell].failure
        assert all(len(worker.step_us) == 4 for worker in records[cell].result.workers)
    result = records[WHOLE].result
    assert [epoch.epoch for epoch in result.epochs] == [1]
    assert 0.5 < result.test.accuracy < 1
    assert (finished / f"build/site/records/{WHOLE}.json").is_file()
    order = [one.cell.experiment for one in sorted(records.values(), key=lambda r: r.started_at)]
    assert list(dict.fromkeys(order)) == [*STUDY["experiments"]]
    # A cell that cannot train is a record that says why, and a gap on the site.
    reason = "a global batch of 4000 is larger than the 3000 examples"
    record = records[IMPOSSIBLE]
    assert (record.status, record.failure.reason) == ("refused", reason)
    assert reason in (finished / "build/site/records.html").read_text()


def test_a_run_prints_an_estimate_then_each_cell_the_gaps_and_where_the_site_is(run):
    lines = run[1].splitlines()
    cells = [line for line in lines if re.match(r"\d/6 ", line)]
    assert [line[:4] for line in cells] == [f"{done}/6 " for done in range(1, 7)]
    (total,) = (line for line in lines if line.startswith("total "))  # of the estimate
    assert lines.index(total) < lines.index(cells[0])
    one = r"\d/6 fashion_mlp, MultiWorkerMirroredStrategy, 2 nodes, batch 32: [\d.]+ ms per step"
    assert sum(bool(re.match(one, line)) for line in cells) == 1
    assert sum("a global batch of 4000 is larger" in line for line in cells) == 1
    assert any(line.startswith("no usable result: ") for line in lines)
    assert sum("KERAS_BACKEND=jax is ignored" in line for line in lines) == 1
    assert lines[-1] == "The site: build/site/index.html"
    assert len(lines) < 70
    assert max(map(len, lines)) < 400


def test_a_user_s_own_model_is_described_and_has_a_page(finished):
    (path,) = (finished / "results/models").glob("own_own_model_*.json")
    shown = json.loads((finished / "build/site/models/mine.json").read_text())
    assert shown | {"model": path.stem} == read_own(path).model_dump(mode="json")
    assert (finished / "build/site/models/mine.html").is_file()


def test_nothing_changed_nothing_runs(project):
    """After switching branches and back, files are newer but have the same content."""
    for path in ("models/fashion_cnn.py", "workflow/nodewise/strategies/single/worker.py"):
        (project / path).touch()
    assert would_run(project) == (set(), set())


def test_a_cell_whose_record_is_named_is_measured_again(finished):
    record = f"results/small/records/{WHOLE}.json"
    assert would_run(finished, "--force", record) == ({WHOLE}, set())


def test_only_cells_whose_declaration_is_new_are_measured(project):
    experiments = STUDY["experiments"] | {"steps": STEPS | {"batches": [32, 48]}}
    experiments["whole"] = experiments["whole"] | {"extent": {"epochs": 1, "split_steps": 0}}
    write_study(project, STUDY | {"experiments": experiments})
    added = {cell.replace("batch~32", "batch~48") for cell in STEPS_CELLS}
    assert would_run(project) == (added | {WHOLE}, FOLLOWING)


def test_what_decides_nothing_of_a_cell_measures_none(project):
    """It also does not prepare data or measure noise scales again."""
    told = {"title": "Another title", "cell_time_limit_s": 500, "data": {"source": "official"}}
    write_study(project, STUDY | told | {"watts_per_core": 7.0})
    # MEASURES says whether a change of the code affects numbers.
    for layer in (project / "workflow/nodewise").glob("*/__init__.py"):
        edit(layer)
    edit(project / "workflow/nodewise/measure/worker.py")
    # a comment in the code of a model or of data changes nothing
    for file in ("models/fashion_cnn.py", "models/templates/own_model.py"):
        edit(project / file)
    edit(project / "data/templates/own_data.py")
    cells, rules = would_run(project)
    assert cells == set()
    assert rules <= FOLLOWING and "build_tables" in rules


@pytest.mark.parametrize("cause", ["seed", "MEASURES", "another cluster", "TensorFlow"])
def test_what_decides_every_cell_measures_all(project, cause):
    if cause == "MEASURES":
        edit(project / "workflow/nodewise/study/measures.py", "MEASURES = 1000")
    elif cause == "seed":
        write_study(project, STUDY | {"seed": 7})
    elif cause == "TensorFlow":
        about = project / "workflow/tensorflow-9.9.dist-info/METADATA"  # in front of the real one
        write_text(about, "Metadata-Version: 2.1\nName: tensorflow\nVersion: 9.9\n")
    else:
        write_study(project, STUDY | {"cluster": {"kind": "emulated"}})
    cells, rules = would_run(project)
    assert cells == ALL_CELLS
    assert ("calibrate" in rules) == (cause == "another cluster")


def test_edited_models_and_strategies_measure_only_their_cells(project):
    edit(project / "models/fashion_cnn.py", "EDITED = 1")
    edit(project / "workflow/nodewise/strategies/multi_worker_mirrored/worker.py")
    cells, rules = would_run(project)
    assert cells == {
        cell for cell in STEPS_CELLS if "/fashion_cnn/" in cell or "/multi_worker_" in cell
    }
    assert rules == FOLLOWING | {"measure_noise_scale"}


def test_an_edited_input_reruns_only_what_depends_on_it(project):
    edit(project / "site/templates/index.md.j2")
    assert would_run(project) == (set(), {"build_site", "all"})
    edit(project / "data/published/curves/scaling_curves.csv")
    assert would_run(project) == (set(), {"build_fits", "build_site", "all"})


def refused(project: Path, *arguments: str) -> list[str]:
    """Return the lines that a run prints that ends before any job."""
    run = start(project, "snakemake", "--cores", "all", "--configfile", CONFIG, *arguments)
    output = finish(run, 1)
    return [line for line in output.splitlines() if not line.startswith("Using ")]


def test_a_mistake_in_the_study_is_one_line_before_any_job(project):
    experiments = STUDY["experiments"] | {"steps": STEPS | {"batches": [0]}}
    write_study(project, STUDY | {"experiments": experiments})
    where = "nodewise: config/small.yaml: experiments.steps.batches[0]"
    assert refused(project) == [f"{where}: 0 is not allowed, must be at least 1"]


@pytest.mark.parametrize("more", [["config/smoke.yaml"], ["--config", "seed=7"]])
def test_one_file_is_one_study(finished, more):
    """A second file, or a single value, would otherwise be ignored silently."""
    (line,) = refused(finished, *more)
    assert line.startswith("nodewise: one --configfile is a whole study")


WAITING = """

_load = load


def load():
    import time
    from pathlib import Path

    Path("loading").touch()
    while not Path("go").exists():
        time.sleep(0.1)
    return _load()
"""
DATASET = f"results/datasets/{own_dataset_name('data/templates/own_data.py:load')}/manifest.json"


@pytest.fixture
def waiting(tmp_path):
    """Yield a project and the Snakemake run that prepares its dataset, waiting for a file `go`."""
    project = projects.copy(tmp_path / "project")
    data = project / "data/templates/own_data.py"
    data.write_text(data.read_text() + WAITING)
    impossible = {"impossible": STUDY["experiments"]["impossible"]}
    write_study(project, STUDY | {"experiments": impossible})
    run = start_snakemake(project, f"results/small/records/{IMPOSSIBLE}.json")
    wait_until((project / "loading").is_file, 60, run)
    yield project, run
    run.kill()


def test_a_job_that_finishes_after_an_interrupt_of_snakemake_alone_is_not_run_again(waiting):
    project, run = waiting
    run.send_signal(signal.SIGINT)
    (project / "go").touch()
    said = finish(run, 1)  # The cell has not been measured yet.
    assert said.splitlines()[-1] == STOPPED
    assert (project / DATASET).is_file()
    cells, rules = would_run(project)
    assert cells == {IMPOSSIBLE}
    assert "prepare_own_dataset" not in rules


def test_a_result_that_is_missing_is_made_again_although_the_site_is_there(project):
    (project / "results/small/fits/trials.csv").unlink()
    assert would_run(project) == (set(), FOLLOWING - {"build_tables"})
    cell = min(STEPS_CELLS)
    (project / f"results/small/records/{cell}.json").unlink()
    (project / "results/small/noise_scale/fashion_mlp.json").unlink()
    assert would_run(project) == ({cell}, FOLLOWING | {"measure_noise_scale"})


def test_a_step_that_failed_is_named_and_fails_again_until_its_cause_is_gone(project):
    record = project / f"results/small/records/{WHOLE}.json"
    sound = record.read_text()
    record.write_text("{}")
    for _ in range(2):
        lines = refused(project)
        assert "failed: build tables" in lines
        assert any(f"    nodewise: results/small/records/{WHOLE}.json: " in line for line in lines)
        assert "Nothing to be done" not in "\n".join(lines)
    record.write_text(sound)
    assert would_run(project) == (set(), FOLLOWING)


def test_a_calibration_of_hosts_is_used_once_it_is_there_and_no_rule_makes_it(tmp_path):
    project = projects.copy(tmp_path / "project")
    hosts = {"kind": "ssh", "hosts": ["one", "two"]}
    write_study(project, projects.small_study(hosts, "hosts", strategies=STEPS["strategies"]))
    made = "results/hosts/calibration/calibration.json"
    assert made not in snakemake(project, "--dry-run", "--verbose")
    write_text(project / made, json_text(make_calibration.calibration((2, 3))))
    said = snakemake(project, "--dry-run", "--verbose")
    assert f"input: results/hosts/tables, {made}" in said
    assert "rule calibrate" not in said
