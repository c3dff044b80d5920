"""The plan of a study: what is done, how long the rest takes, and how that is reported."""

import csv
from pathlib import Path

import pytest
import yaml

import make_records as make
import projects
from nodewise.core.schema import json_text
from nodewise.models.facts import facts, own_description
from nodewise.models.registry import cell_code, registry
from nodewise.study import plan
from nodewise.study.config import Config, check_files_exist, read_config
from nodewise.study.estimate import REFERENCE_S, Machine

MACHINE = Machine(REFERENCE_S, cores=2)


def study(**experiment: object) -> Config:
    strategies = {"single": {"nodes": [1]}, "multi_worker_mirrored": {"nodes": [2]}}
    grid = {"strategies": strategies, "batches": [64, 512]}
    return Config.model_validate(projects.small_study(**grid | experiment))


@pytest.mark.parametrize(
    "changed",
    [{"versions": {"tensorflow": "9.9"}}, {"code_sha256": 64 * "f"}, {"measures": 0}],
)
def test_recorded_cells_are_done_unless_the_workflow_measures_them_again(tmp_path, changed):
    before = plan.plan(study(), tmp_path, MACHINE)
    records = [make.record(one.cell) for one in before[:3]]
    for record, update in zip(
        records, [{"code_sha256": cell_code(before[0].cell)}, changed], strict=False
    ):
        vars(record)["provenance"] = record.provenance.model_copy(update=update)
    paths = make.write(records, tmp_path)
    paths[2].write_text('{"schema_version": 1}')
    after = plan.plan(study(), tmp_path, MACHINE)
    assert [one.record is None for one in after] == [False, True, True, True]
    (total,) = [x for x in plan.report(study(), after, MACHINE).splitlines() if "total" in x]
    assert total.split()[:4] == ["total", "4", "1", "0"]


def test_nothing_is_made_up_for_a_model_of_the_user_s_own(tmp_path):
    own = {"mine": {"build": "models/templates/own_model.py:build", "dataset": "fashion_mnist"}}
    planned = plan.plan(study(own_models=own), tmp_path, MACHINE)
    assert sum(one.estimate is None for one in planned) == 4
    said = plan.report(study(), planned, MACHINE)
    assert "unknown for 4 cells of your own models" in said
    advice = "nodewise describe-model models/templates/own_model.py:build --dataset fashion_mnist"
    assert advice in said
    assert "Too few launches for evidence of what is faster: steps. Set repeats: 3" in said


def test_a_described_model_of_the_user_s_own_is_estimated_like_others(tmp_path, monkeypatch):
    own = {"mine": {"build": "models/templates/own_model.py:build", "dataset": "fashion_mnist"}}
    both = study(own_models=own)
    described = facts("fashion_cnn")
    monkeypatch.setattr("nodewise.models.facts.OWN_DESCRIPTIONS", tmp_path)
    mine = next(cell for cell in both.cells() if cell.build)
    path = own_description(mine)
    path.write_text(json_text(described.model_copy(update={"model": path.stem})))
    planned = plan.plan(both, tmp_path / "records", MACHINE)
    step_s = {}
    for one in planned:
        key = one.cell.strategy, one.cell.batch, one.cell.nodes
        step_s.setdefault(key, set()).add(one.estimate.step_s)
    assert len(step_s) == 4 and all(len(seen) == 1 for seen in step_s.values())
    assert "describe-model" not in plan.report(both, planned, MACHINE)


@pytest.mark.parametrize("path", sorted(Path("config").glob("*.yaml")), ids=str)
def test_every_study_of_the_project_is_sound_and_can_be_planned(path):
    config = read_config(path)
    check_files_exist(config)
    ids = [cell.id for cell in config.cells()]
    assert config.name == path.stem
    assert len(ids) == len(set(ids))
    assert bool(ids) != bool(config.records)
    planned = plan.plan(config, Path("nowhere"), MACHINE)
    assert len(planned) == len(ids)
    # models of the project, not of a user
    described = [one for one in planned if not one.cell.build]
    assert all(one.estimate is not None and one.estimate.cell_s > 0 for one in described)


def test_the_full_study_has_every_model():
    assert {cell.model for cell in read_config(Path("config/full.yaml")).cells()} == {*registry()}


def test_the_paper_study_is_the_published_grid():
    cells = read_config(Path("config/paper.yaml")).cells()
    with Path("data/published/ntua/models.csv").open(encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    wanted = {
        (row["model"], int(batch), nodes, int(row["epochs"]))
        for row in table
        for batch in row["initial_batch_sizes"].split(";")
        for nodes in (1, 2, 3)
    }
    assert {(c.model, c.batch, c.nodes, c.extent.epochs) for c in cells} == wanted
    assert len(cells) == len(wanted)
    assert {cell.dataset for cell in cells} == {row["dataset"] for row in table}


def test_the_command_needs_no_tensorflow_and_measures_with_one_thread(tmp_path):
    (tmp_path / "tiny.yaml").write_text(
        yaml.safe_dump(study().model_dump(exclude_none=True, exclude={"records"}), sort_keys=False)
    )
    code = (
        "import sys; from nodewise.cli import app; "
        f"app(['plan', '--config', {str(tmp_path / 'tiny.yaml')!r}], standalone_mode=False); "
        "import os; threads = len(os.listdir('/proc/self/task')); "
        "sys.exit(threads > 1 or bool({'keras', 'pandas', 'PIL', 'tensorflow'} & set(sys.modules)))"
    )
    assert "total" in projects.python("-c", code)
