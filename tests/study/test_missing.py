"""Missing results are listed with their reasons and are tried again only on request."""

import json

import pytest

import commands
import make_records as make
import projects
from mistakes import user_error
from nodewise.core.files import write_text
from nodewise.models.facts import own_description, own_models, refuse_own
from nodewise.strategies import STRATEGIES
from nodewise.study import missing
from nodewise.study.config import CALIBRATION, Config, check_files_exist
from nodewise.study.estimate import Machine
from nodewise.study.plan import plan, report

GRID = {"strategies": {"single": {"nodes": [1]}, "mpi": {"nodes": [1, 2]}}}


def study(**changes):
    return Config.model_validate(projects.small_study(**GRID | changes))


@pytest.fixture
def measured(tmp_path, monkeypatch):
    """Return the folder of a study's records: one cell succeeded, the others were refused."""
    first, *others = study().cells()  # This reads the project's registry, so it comes before chdir.
    monkeypatch.chdir(tmp_path)
    records = [
        make.record(first),
        *(make.failed(one, "no room", status="refused") for one in others),
    ]
    folder = tmp_path / "results" / "small" / "records"
    make.write(records, folder)
    (tmp_path / "small.yaml").write_text(json.dumps(projects.small_study(**GRID)))
    return folder


def test_a_model_that_could_not_be_described_is_named_until_it_is_forgotten(measured):
    own = {"mine": {"build": "mine.py:build", "dataset": "fashion_mnist"}}
    of_users = study(models=[], own_models=own)
    path = own_description(own_models(of_users.cells())["mine"])
    refuse_own(path, "mine.py:build: must return a keras.Model, not nothing")
    found = missing.find_missing(of_users, measured)
    assert list(missing.lines(found, of_users)) == [
        f"no usable result: {path}: mine is not described: mine.py:build: must return a "
        "keras.Model, not nothing"
    ]
    assert list(missing.remove(found)) == [path]
    assert not missing.find_missing(of_users, measured)


def test_gaps_are_told_by_reason_and_stay_until_they_are_forgotten(measured):
    arguments = ("missing", "--config", "small.yaml")
    told = commands.run(*arguments).stdout
    assert "2 cells, such as results/small/records/steps" in told
    assert "refused: no room" in told
    assert "nodewise missing --config small.yaml --forget" in told
    assert len(list(measured.rglob("*.json"))) == 3
    commands.run(*arguments, "--forget")
    assert len(list(measured.rglob("*.json"))) == 1
    told = commands.run(*arguments).stdout
    assert told == "1 of 3 cells have a result. The next run measures the rest.\n"


def test_a_build_of_horovod_that_was_in_vain_is_a_gap_of_studies_that_train_with_it(measured):
    manifest = STRATEGIES["horovod"].library.manifest
    write_text(manifest, '{"missing": "there is no compiler"}')
    with_it = study(strategies={"horovod": {"nodes": [2]}})
    assert missing.find_missing(with_it, measured) == {
        "Horovod was not built: there is no compiler": [manifest]
    }
    assert not any("Horovod" in reason for reason in missing.find_missing(study(), measured))


def test_a_calibration_that_cannot_be_read_is_one_that_is_still_to_be_made(measured):
    """It may have another version; the run that renews it also ends with `nodewise missing`."""
    before = missing.find_missing(study(), measured)
    file = measured.parent / CALIBRATION
    write_text(file, '{"schema_version": 0}')
    assert missing.find_missing(study(), measured) == before


def test_a_plan_counts_what_failed_and_what_was_declared_otherwise_apart(measured, monkeypatch):
    monkeypatch.undo()  # Return to the project's folder: the plan reads its registries.
    machine = Machine(reference_s=0.006, cores=2)
    planned = plan(study(), measured, machine)
    assert sum(one.done for one in planned) == 1
    said = report(study(), planned, machine)
    assert "nodewise missing --forget" in said
    assert " 3      1      2 " in said
    longer = study(extent={"steps": 800})
    assert not any(one.record for one in plan(longer, measured, machine))
    patient = study().model_copy(update={"cell_time_limit_s": 7.0})
    assert all(one.record for one in plan(patient, measured, machine))


@pytest.mark.parametrize(
    ("build", "dataset", "said"),
    [
        ("fashion_cnn.py:nope", "mnist", "models/fashion_cnn.py: has no function 'nope'"),
        ("fashion_cnn.py:build", "mnits", "'mnits' is not in data/datasets.yaml; allowed: cifar10"),
        ("lost.py:build", "mnist", "there is no file models/lost.py"),
    ],
)
def test_what_is_named_and_not_there_is_said_before_anything_runs(build, dataset, said):
    own = study(own_models={"mine": {"build": f"models/{build}", "dataset": dataset}})
    line = user_error(check_files_exist, own)
    assert line.startswith("experiments.steps: ")
    assert said in line
