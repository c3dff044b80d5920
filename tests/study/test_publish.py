"""Only complete experiments without cautions are published; the manifest lists the rest."""

import json
import shutil

import pytest

import commands
import make_records as make
import projects
from nodewise.core.files import file_sha256, write_text
from nodewise.core.schema import read_json
from nodewise.results.manifest import Manifest
from nodewise.results.record import read_record
from nodewise.study.config import CALIBRATION, Config

STUDY = projects.small_study(
    name="tiny", strategies={"single": {"nodes": [1]}, "mpi": {"nodes": [2]}}, repeats=2
)
STUDY["experiments"]["more"] = STUDY["experiments"]["steps"] | {"batches": [32]}
RESULTS, OUT = "results/tiny", "data/records/mine/tiny"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a folder with the study and a record of each of its eight cells."""
    # This reads the project's registry, so it comes before chdir.
    cells = Config.model_validate(STUDY).cells()
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.yaml").write_text(json.dumps(STUDY))
    make.write([make.record(one) for one in cells], tmp_path / RESULTS / "records")
    return tmp_path


def publish(run=commands.run, out=OUT):
    return run("publish", "--config", "tiny.yaml", "--out", out)


def files(project, experiment):
    return sorted((project / RESULTS / "records" / experiment).rglob("repeat~*.json"))


def disturb(file):
    """Give a record the caution of a machine that was not quiet."""
    content = json.loads(file.read_text())
    content["result"]["conditions"]["outside"] = ["another process took 0.4 cores"]
    file.write_text(json.dumps(content))


def published(project):
    return sorted(path.relative_to(project / OUT) for path in (project / OUT).rglob("repeat~*"))


def test_a_whole_study_is_copied_as_it_is_and_its_manifest_says_what_it_holds(project):
    write_text(project / RESULTS / "noise_scale/fashion_cnn.json", "{}")
    calibration = project / RESULTS / CALIBRATION
    write_text(calibration, "{}")
    assert publish().stdout == f"{OUT}: 2 experiments, 4 points, 8 launches\n"
    measured = files(project, "steps") + files(project, "more")
    assert len(published(project)) == len(measured)
    for file in measured:
        copy = project / OUT / file.relative_to(project / RESULTS / "records")
        assert copy.read_bytes() == file.read_bytes()
        read_record(copy)
    manifest = read_json(Manifest, project / OUT / "manifest.json")
    records = [read_record(file) for file in measured]
    assert manifest.machine == records[0].provenance.cpu
    assert manifest.commits == ["0" * 40]
    assert manifest.calibration_sha256 == file_sha256(calibration)
    assert (project / OUT / "calibration.json").read_bytes() == calibration.read_bytes()
    assert manifest.first_started_at == min(one.started_at for one in records)
    assert manifest.last_finished_at == max(one.finished_at for one in records)
    assert [(one.points, one.launches) for one in manifest.experiments] == [(2, 4), (2, 4)]
    assert manifest.left_out == []
    assert (project / OUT / "noise_scale/fashion_cnn.json").is_file()


def test_an_experiment_that_was_cut_off_stays_out(project):
    files(project, "more")[0].unlink()
    assert "left out: more: 3 of 4 cells measured\n" in publish().stdout
    assert all(path.parts[0] == "steps" for path in published(project))


def test_a_point_with_a_caution_stays_out_and_the_command_that_repeats_it_removes_it(project):
    for file in files(project, "steps"):
        if "mpi" in file.parts:
            disturb(file)
    reason = "left out: steps/fashion_cnn/mpi/batch~64/nodes~2: another process took"
    assert reason in publish().stdout
    assert not any("mpi" in path.parts for path in published(project) if path.parts[0] == "steps")
    arguments = ("missing", "--config", "tiny.yaml")
    assert "Nothing to try again" in commands.run(*arguments).stdout
    listed = commands.run(*arguments, "--cautions").stdout
    assert "no usable result: 2 cells, such as results/tiny/records/steps" in listed
    assert "caution: another process took 0.4 cores" in listed
    assert "nodewise missing --config tiny.yaml --cautions --forget" in listed
    commands.run(*arguments, "--cautions", "--forget")
    assert len(files(project, "steps")) == len(files(project, "more")) - 2


def test_a_training_of_whole_epochs_stays_as_a_caution_is_about_time(project):
    whole = STUDY["experiments"]["more"] | {"extent": {"warmup_steps": 5, "epochs": 5}}
    study = STUDY | {"experiments": {"more": whole}}
    (project / "tiny.yaml").write_text(json.dumps(study))
    shutil.rmtree(project / RESULTS / "records")
    cells = Config.model_validate(study).cells()
    for file in make.write([make.record(one) for one in cells], project / RESULTS / "records"):
        disturb(file)
    assert publish().stdout == f"{OUT}: 1 experiment, 2 points, 4 launches\n"


def test_what_was_published_is_replaced_but_no_folder_of_somebody_else(project):
    publish()
    before = published(project)
    for file in files(project, "more"):
        file.unlink()
    publish()
    assert len(published(project)) == len(before) / 2
    foreign = project / "data/records/foreign"
    write_text(foreign / "mine.txt", "mine")
    assert str(foreign) in publish(commands.refusal, foreign)
    assert (foreign / "mine.txt").read_text() == "mine"


def test_what_cannot_be_published_is_one_line(project):
    for file in files(project, "more"):
        content = json.loads(file.read_text())
        content["provenance"]["cpu"] = "Another processor"
        file.write_text(json.dumps(content))
    assert "several machines" in publish(commands.refusal)
    for experiment in ("steps", "more"):
        files(project, experiment)[0].unlink()
    said = "results/tiny/records: no experiment of tiny is measured whole"
    assert publish(commands.refusal) == said
    assert not (project / OUT).exists()
