"""Measure one cell by hand, as a user would: with the templates, in a copy of the project."""

import pytest

import projects
from nodewise.core.files import write_text
from nodewise.core.schema import json_text
from nodewise.core.user_function import own_model
from nodewise.models.facts import read_facts
from nodewise.results.record import read_record

pytestmark = pytest.mark.slow

MODEL, DATA = "models/templates/own_model.py:build", "data/templates/own_data.py:load"
OWN = f"--model {MODEL} --dataset {DATA}"


def measure(project, options: str, code=0) -> str:
    return projects.finish(projects.start(project, "nodewise", "measure", *options.split()), code)


def test_the_templates_learn_on_two_nodes_and_leave_a_record(project):
    how = "--strategy multi_worker_mirrored --nodes 2 --batch 32 --epochs 3"
    said = measure(project, f"{OWN} {how}")
    (path,) = (project / "results/single_run/records").glob(
        "single_run_local_*/own_own_model_*/multi_worker_mirrored/batch~32/nodes~2/repeat~0.json"
    )
    record = read_record(path)
    assert record.result.test.accuracy > 0.9
    assert (record.cell.build, record.cell.load) == (MODEL, DATA)
    assert (record.data.origin, record.data.train_examples) == ("own", 3000)
    assert record.provenance.command.startswith("nodewise measure --strategy multi_worker_mirrored")
    assert str(project) not in path.read_text()
    for word in ("measured", "own", "examples per second", "test accuracy", "compute"):
        assert word in said


def test_an_own_model_is_described_and_refused_where_it_does_not_fit(project):
    path = project / "results/models" / f"{own_model(MODEL, DATA)}.json"
    describe = ("nodewise", "describe-model", MODEL, "--dataset", DATA)
    said = projects.finish(projects.start(project, *describe))
    described = read_facts(path.parent, path.stem)
    assert f"{described.total:,} parameters" in said
    assert described.trainable > 0
    too_large = described.memory.model_copy(update={"bytes_per_example": 10**12})
    write_text(path, json_text(described.model_copy(update={"memory": too_large})))
    how = "--strategy single --nodes 1 --batch 8 --out too_large.json"
    measure(project, f"{OWN} {how}", 1)
    record = read_record(project / "too_large.json")
    assert record.status == "refused"
    assert record.failure.reason.startswith(f"batch 8 of {path.stem} takes about 8000.")
    path.unlink()


MODEL_FILE = """
import keras

def build():
    net = [keras.Input({shape}), keras.layers.Flatten(), keras.layers.Dense(9)]
    model = keras.Sequential([*net, keras.layers.Dense(3)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.SGD({rate}), loss)
    return model
"""


def test_a_forecast_times_the_model_with_the_backend_that_the_user_chose(project):
    text = MODEL_FILE.format(shape=(12, 12, 1), rate=1e-6)
    checked = "def build():\n    assert keras.backend.backend() == 'jax'"
    (project / "on_jax.py").write_text(text.replace("def build():", checked))
    what = f"--model on_jax.py:build --dataset {DATA} --batch 8 --link 1gbit --nodes 2 --json"
    command = ("nodewise", "forecast", *what.split())
    said = projects.finish(projects.start(project, *command, KERAS_BACKEND="jax"))
    assert '"devices": 2' in said


@pytest.mark.parametrize(
    ("name", "shape", "rate", "reason", "rank"),
    [
        ("wrong", (9, 9, 3), 0.1, "wrong.py:build: ValueError", 0),
        ("hot", (12, 12, 1), 1e20, "the training diverged: a loss of nan", None),
    ],
)
def test_a_cell_that_fails_is_recorded_and_exit_code_1(project, name, shape, rate, reason, rank):
    (project / f"{name}.py").write_text(MODEL_FILE.format(shape=shape, rate=rate))
    what = f"--model {name}.py:build --dataset {DATA} --out {name}.json"
    said = measure(project, f"{what} --strategy single --nodes 1 --batch 8 --steps 9", 1)
    record = read_record(project / f"{name}.json")
    assert (record.status, record.failure.rank) == ("failed", rank)
    assert reason in record.failure.reason and f"~0: failed: {record.failure.reason}" in said
    assert rank is None or any(reason in line for line in record.failure.log_tail)
    assert "Traceback" not in said
