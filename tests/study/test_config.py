"""A configuration is checked before any job starts; one line names the mistake and the remedy."""

import copy
from pathlib import Path

import pytest
import yaml

import projects
from mistakes import user_error
from nodewise.core.files import write_text
from nodewise.study.config import read_config

GOOD = projects.small_study(
    models=["fashion_cnn", "fashion_mlp"],
    strategies={"single": {"nodes": [1]}, "multi_worker_mirrored": {"nodes": [2, 3]}},
    batches=[32, 64],
    repeats=2,
)
del GOOD["cluster"]


def read(tmp_path, tree):
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(tree, sort_keys=False))
    return read_config(path)


def changed(where: str, value: object):
    tree = copy.deepcopy(GOOD)
    *parents, last = where.split(".")
    at = tree
    for key in parents:
        at = at[key]
    at[last] = value
    return tree


def test_every_product_of_the_axes_is_a_cell(tmp_path):
    config = read(tmp_path, GOOD)
    cells = config.cells()
    axes = {(c.model, c.strategy, c.batch, c.nodes, c.repeat) for c in cells}
    assert len(cells) == len(axes) == 2 * 3 * 2 * 2
    assert ("fashion_mlp", "multi_worker_mirrored", 64, 3, 1) in axes
    assert not any(c.strategy == "single" and c.nodes > 1 for c in cells)
    # Each launch of a point has a seed of its own, and launches are interleaved over nodes.
    assert {cell.seed - cell.repeat for cell in cells} == {config.seed}
    assert [cell.repeat for cell in cells] == sorted(cell.repeat for cell in cells)
    nodes = [cell.nodes for cell in cells if cell.repeat == 0]
    assert nodes not in (sorted(nodes), sorted(nodes, reverse=True))
    assert cells == read(tmp_path, GOOD).cells()
    # Experiments are measured one after the other.
    two = dict.fromkeys(("second", "first"), GOOD["experiments"]["steps"])
    names = [cell.experiment for cell in read(tmp_path, GOOD | {"experiments": two}).cells()]
    assert names == ["second"] * len(cells) + ["first"] * len(cells)


def test_an_experiment_may_have_a_cluster_of_its_own(tmp_path):
    tree = changed("experiments.steps.cluster", EMULATED | {"slow_node": {"rank": 2, "cpu": 0.1}})
    tree["experiments"]["other"] = GOOD["experiments"]["steps"]
    labels = {cell.experiment: cell.cluster.label for cell in read(tmp_path, tree).cells()}
    assert labels == {
        "steps": "0.2 core (node 2: 0.1 core), 100 Mbit/s",
        "other": "0.2 core, 100 Mbit/s",
    }


def test_nodes_that_preprocess_come_on_top_and_are_not_the_slow_one(tmp_path):
    tree = changed("experiments.steps.input", "service")
    tree["experiments"]["steps"]["preprocessing_nodes"] = 2
    assert {cell.processes - cell.nodes for cell in read(tmp_path, tree).cells()} == {2}
    tree["experiments"]["steps"]["cluster"] = EMULATED | {"slow_node": {"rank": 3, "cpu": 0.1}}
    assert "slow_node.rank: must be less than 3, the most nodes" in user_error(read, tmp_path, tree)


def test_own_models_are_trained_like_the_others(tmp_path):
    own = {
        "mine": {"build": "mine.nets:build", "dataset": "mnist"},
        "other": {"build": "nets/other.py:make", "dataset": "mine.data:load"},
        "third": {"build": f"{Path.cwd()}/nets/third.py:make", "dataset": "mine.data:load"},
    }
    cells = read(tmp_path, changed("experiments.steps.own_models", own)).cells()
    found = {cell.model: (cell.dataset, cell.build, cell.load) for cell in cells}
    assert found["fashion_mlp"] == ("fashion_mnist", None, None)
    assert found["mine"] == ("mnist", "mine.nets:build", None)
    (dataset, build, load) = found["other"]
    assert (build, load) == ("nets/other.py:make", "mine.data:load")
    assert dataset.startswith("own_mine_data_load_")
    assert found["third"] == (dataset, "nets/third.py:make", "mine.data:load")


STEPS = "experiments.steps"
STRATEGIES, OWN = f"{STEPS}.strategies", f"{STEPS}.own_models"
OPTIONS = f"{STRATEGIES}.single.options"
LETTERS = "is not allowed, must be small letters, digits and _"
EMULATED = {"kind": "emulated"}


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("sed", 1, "sed: unknown key"),
        (f"{STEPS}.batches", [0], "batches[0]: 0 is not allowed, must be at least 1"),
        (f"{STEPS}.batches", [64, 64], "batches: 64 appears twice"),
        (f"{STEPS}.models", ["vgg"], "'vgg'; allowed: bert_base, cifar10_cnn"),
        (f"{STRATEGIES}.magic", {"nodes": [1]}, "'magic'; allowed: "),
        (f"{STRATEGIES}.single.nodes", [2], "single.nodes: allowed for this"),
        (OPTIONS, {"x": 1}, "single.options.x: unknown; allowed: none"),
        (f"{STRATEGIES}.single.nodes", 1, "1 is not allowed, must be a list"),
        ("experiments", {}, "experiments: {} is not allowed, must have at least 1 item"),
        ("cell_time_limit_s", "1:30", "cell_time_limit_s: '1:30' is not allowed, must be a number"),
        (f"{STEPS}.input", "whole", "must be 'sharded', 'unsharded', 'service' or 'own'"),
        (f"{STEPS}.extent", {"steps": 5, "epochs": 1}, "extent: give either steps or"),
        ("experiments.Steps One", {}, "experiments.Steps One: "),
        ("cluster", {"kind": "moon"}, "must be one of emulated, local, slurm, ssh"),
        ("cluster", EMULATED | {"node": {"cpu": 2}}, "cluster.node.cpu: 2 is not"),
        ("cluster", EMULATED | {"slow_node": {"cpu": 0.4}}, "slow_node.cpu: must be less than 0.2"),
        (f"{STEPS}.input", "own", "steps.input: own needs own_models, each with data of its own"),
        (f"{STEPS}.input", "service", "steps.preprocessing_nodes: 1 or more with input"),
        (f"{STEPS}.models", [], "models: name at least one, or give own_models"),
        (OWN, {"fashion_mlp": {"build": "a:b", "dataset": "mnist"}}, "'fashion_mlp' is a model of"),
        (OWN, {"a": {"build": "a:b", "dataset": "M 1"}}, "dataset: 'M 1' is not allowed, must be"),
        (OWN, {"a": {"build": "../a.py", "dataset": "mnist"}}, "'../a.py' is not allowed, must be"),
        (f"{STRATEGIES}.a", {"strategy": "model_parallel", "nodes": [2, 6]}, "a.nodes: at most 5 "),
        ("name", "../up", f"name: '../up' {LETTERS}"),
        (f"{STEPS}.title", "\x1b[31mred", "U+001B is not allowed, must be one line of"),
        (OPTIONS, {"x": [1]}, "single.options.x: [1] is not allowed, must be true, false, a"),
        (f"{STRATEGIES}.mpi", {"strategy": "horovod", "nodes": [2]}, "mpi: is the name of another"),
    ],
)
def test_a_mistake_is_one_line_that_names_the_key(tmp_path, where, value, said):
    assert said in user_error(read, tmp_path, changed(where, value))


@pytest.mark.parametrize(("tree", "value"), [(["a"], "['a']"), (None, "null")])
def test_what_is_not_a_configuration_is_said(tmp_path, tree, value):
    said = user_error(read, tmp_path, tree)
    assert f"the file: {value} is not allowed, must be keys and values" in said


RECORDS = {"name": "tiny", "title": "Measured before", "records": ["data/records/here/one"]}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"experiments": GOOD["experiments"]}, "give either experiments or records, and not both"),
        ({"records": []}, "records: [] is not allowed, must have at least 1 item"),
        ({"records": ["../elsewhere"]}, "records[0]: must be a path inside the project"),
        ({"records": ["/elsewhere"]}, "records[0]: must be a path inside the project"),
        ({"records": ["a", "a"]}, "records: a appears twice"),
        ({"curves": ["../mine.csv"]}, "curves[0]: must be a path inside the project"),
        ({"curves": ["mine.csv", "mine.csv"]}, "curves: mine.csv appears twice"),
        ({"seed": 2}, "seed: nothing is measured here; leave it out"),
        ({"cluster": {"kind": "local"}}, "cluster: nothing is measured here; leave it out"),
    ],
)
def test_records_of_earlier_studies_leave_nothing_to_measure(tmp_path, changes, said):
    assert read(tmp_path, RECORDS).cells() == []
    assert said in user_error(read, tmp_path, RECORDS | changes)
    neither = {"name": "tiny", "title": "Nothing to show"}
    assert "give either experiments or records" in user_error(read, tmp_path, neither)


def test_two_runs_to_compare_are_folders_inside_the_project_with_records(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runs = {"old": "data/records/here/one", "new": "data/records/here/two"}
    study = read(tmp_path, RECORDS | {"changes": runs})
    name = "steps/mlp/single/batch~8/nodes~1/repeat~0.json"
    files = [tmp_path / folder / name for folder in runs.values()]
    write_text(files[0], "")
    assert user_error(study.changes_files).startswith("data/records/here/two: holds no record")
    write_text(files[1], "")
    assert [tmp_path / file for file in study.changes_files()] == files
    outside = RECORDS | {"changes": runs | {"new": "../elsewhere"}}
    assert "changes.new: must be a path inside the project" in user_error(read, tmp_path, outside)
    assert read(tmp_path, RECORDS).changes_files() == []


def test_the_records_of_a_study_are_those_of_its_cells_or_all_that_lie_in_its_folders(
    tmp_path, monkeypatch
):
    study = read(tmp_path, GOOD)
    cells = [f"{cell.id}.json" for cell in study.cells()]
    assert study.record_files() == [Path("results", study.name, "records", name) for name in cells]
    assert study.calibrations() == []
    published, folders = read(tmp_path, RECORDS), ["data/records/here/one", "data/records/here/two"]
    two = read(tmp_path, RECORDS | {"records": folders})
    monkeypatch.chdir(tmp_path)
    folder = Path("data/records/here/one")
    assert user_error(published.record_files).startswith(f"{folder}: holds no record of a cell")
    for name in (*cells, "calibration.json"):
        write_text(folder / name, "")
    assert published.record_files() == sorted(folder / name for name in cells)
    assert published.calibrations() == [folder / "calibration.json"]
    scales = [Path(folder, "noise_scale/mlp.json") for folder in folders]
    for scale in scales:
        write_text(scale, "")
    assert two.noise_scales() == scales[:1]  # both have measured the same


def test_a_strategy_that_cuts_no_batch_is_fed_whole_ones(tmp_path):
    tree = changed(STRATEGIES, {"mirrored": {"nodes": [1, 3]}})
    cells = read(tmp_path, tree).cells()
    assert {cell.input for cell in cells} == {"whole"}
    assert {(cell.workers, cell.processes) for cell in cells} == {(1, 1)}
    tree["experiments"]["steps"]["input"] = "unsharded"
    assert "mirrored.input: must be sharded" in user_error(read, tmp_path, tree)


def test_what_is_not_known_of_an_own_model_is_left_to_its_workers(tmp_path):
    experiment = GOOD["experiments"]["steps"] | {
        "models": [],
        "own_models": {"mine": {"build": "mine.nets:build", "dataset": "mnist"}},
        "strategies": {"model_parallel": {"nodes": [8]}, "hybrid": {"nodes": [2]}},
    }
    tree = GOOD | {"experiments": {"steps": experiment}}
    assert len(read(tmp_path, tree).cells()) == 8
    experiment["strategies"]["model_parallel"]["options"] = {"micro_batches": 257}
    assert "micro_batches: at most 256," in user_error(read, tmp_path, tree)


@pytest.mark.parametrize("where", ["cluster", "experiments.steps.cluster"])
def test_devices_of_one_process_have_no_slow_node(tmp_path, where):
    tree = changed(where, {"kind": "emulated", "slow_node": {"cpu": 0.1}})
    tree["experiments"]["steps"]["strategies"] = {"devices": {"strategy": "mirrored", "nodes": [2]}}
    assert "steps.cluster.slow_node: mirrored is one process" in user_error(read, tmp_path, tree)


def test_clusters_of_hosts_have_names_of_their_own_and_room_for_all_processes(tmp_path):
    others = {"kind": "ssh", "hosts": ["a", "b", "c"]}
    tree = changed("experiments.steps.cluster", others)
    tree["cluster"] = {"kind": "ssh", "hosts": ["one", "two", "three"]}
    said = "steps.cluster.name: another cluster with other settings is called 'SSH hosts', too"
    assert said in user_error(read, tmp_path, tree)
    others["name"] = "the others"
    read(tmp_path, tree)
    for four in {"mpi": {"nodes": [4]}, "mirrored": {"nodes": [2]}}, {"async_sgd": {"nodes": [3]}}:
        tree["experiments"]["steps"]["strategies"] = four
        assert "room for 3 workers, not for 4, servers" in user_error(read, tmp_path, tree)
