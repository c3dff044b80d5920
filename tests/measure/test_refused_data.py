"""Cells with unusable data are refused with the reason; the study continues."""

import json
from pathlib import Path

import pytest
import yaml

import make_datasets
import projects
from mistakes import user_error
from nodewise.cli.measure import prepare
from nodewise.core.errors import UserError
from nodewise.core.user_function import own_dataset_name
from nodewise.models.facts import own_description, read_own
from nodewise.results.record import read_record

OWN = {"mine": {"build": "mine.py:build", "dataset": "mine.py:load"}}
CELL = "steps/mine/single/batch~32/nodes~1/repeat~0"
DATA = Path("results/datasets", own_dataset_name("mine.py:load"))
LOGS = Path("results/small/logs")

REASON = "mine.py:load: must return (train, test), where test may be None"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a folder with a study whose data cannot be used."""
    (tmp_path / "mine.py").write_text("def build(): ...\n\ndef load():\n    return 1, 2, 3\n")
    (tmp_path / "models").symlink_to(Path("models").resolve())
    monkeypatch.chdir(tmp_path)
    declare()
    for name in ("CUDA_VISIBLE_DEVICES", "TF_CPP_MIN_LOG_LEVEL"):
        monkeypatch.setenv(name, "")  # The command sets them in this process.
    return tmp_path


def declare(**changes):
    """Write the study with `changes` of its experiment."""
    own = {"models": [], "own_models": OWN, "batches": [32]}
    study = projects.small_study(**own | changes)
    Path("study.yaml").write_text(yaml.safe_dump(study))


def run(*command):
    projects.finish(projects.start(Path.cwd(), "nodewise", *command))


def measured_cell(cell):
    """Measure a cell of the study on prepared data; return its record."""
    run("measure-cell", cell, "--config", "study.yaml")
    return read_record(Path(f"results/small/records/{cell}.json"))


def test_the_reason_is_an_error_by_hand_and_else_that_of_cells_and_of_the_model(project):
    with pytest.raises(UserError) as caught:
        prepare("mine.py:load")
    assert str(caught.value) == REASON
    assert not DATA.exists()
    prepare("mine.py:load", keep_refusal=True)
    record = measured_cell(CELL)
    assert (record.status, record.failure.reason, record.data) == ("refused", REASON, None)
    run("describe-model", "mine.py:build", "--dataset", "mine.py:load", "--keep-refusal")
    description = own_description(record.cell)
    assert json.loads(description.read_text()) == {"refused": REASON}
    assert read_own(description) is None


def test_data_of_one_s_own_have_no_official_source(project):
    said = user_error(prepare, "mine.py:load", source="official")
    assert said == "--source official: mine.py:load is a function of your own"


def test_fewer_examples_than_workers_are_refused_before_one_starts(project):
    (project / "mine.py").write_text(
        "import numpy as np\n\ndef build(): ...\n\n"
        "def load():\n    return (np.zeros((2, 3)), np.zeros(2)), None\n"
    )
    declare(strategies={"custom_loop": {"nodes": [3]}}, batches=[1])
    prepare("mine.py:load")
    record = measured_cell("steps/mine/custom_loop/batch~1/nodes~3/repeat~0")
    reason = "a global batch of 3 is larger than the 2 examples"
    assert (record.status, record.failure.reason) == ("refused", reason)
    assert not LOGS.exists()


@pytest.mark.slow
def test_a_model_that_cannot_be_split_is_refused_before_a_node_starts(project):
    (project / "mine.py").write_text(
        "import keras, numpy as np\n\n"
        "def build():\n"
        "    last = keras.layers.Lambda(lambda x: 2 * x)\n"
        "    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2), last])\n"
        "    model.compile('sgd', 'mse')\n"
        "    return model\n\n"
        "def load():\n    return (np.zeros((64, 3)), np.zeros((64, 2))), None\n"
    )
    strategies = {"model_parallel": {"nodes": [2]}, "parameter_server": {"nodes": [2]}}
    declare(strategies=strategies)
    prepare("mine.py:load")
    for strategy in strategies:
        record = measured_cell(f"steps/mine/{strategy}/batch~32/nodes~2/repeat~0")
        assert record.status == "refused"
        assert "(Lambda) is not allowed" in record.failure.reason
        assert [path.name for path in LOGS.rglob(f"*/{strategy}/**/*.log")] == ["rank~0.log"]


def test_data_that_changed_since_they_were_prepared_are_not_trained_on(tmp_path):
    folder = tmp_path / "results/datasets/fashion_mnist"
    make_datasets.Sample(tmp_path).prepare(out=folder)
    for shared in ("config", "models"):
        (tmp_path / shared).symlink_to(Path(shared).absolute())
    path = folder / "train_0.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-20_000] + bytes(byte ^ 1 for byte in content[-20_000:]))
    cell = "smoke_steps/fashion_cnn/single/batch~32/nodes~1/repeat~0"
    words = ("nodewise", "measure-cell", cell, "--config", "config/smoke.yaml")
    said = projects.finish(projects.start(tmp_path, *words), 2)
    assert said.splitlines()[-1] == (
        "nodewise: results/datasets/fashion_mnist/train_0.npy: changed since it was prepared; "
        "remove results/datasets/fashion_mnist to have the dataset prepared again"
    )
    assert "Traceback" not in said
    assert not list((tmp_path / "results/smoke").rglob("*.json"))
