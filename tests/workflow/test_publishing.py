"""What publishing needs: committed inputs are current, and the project's own files are right."""

import tomllib
from collections import Counter
from pathlib import Path

import pytest
import yaml

import nodewise
from nodewise.core.files import file_sha256
from nodewise.core.schema import read_json
from nodewise.models.facts import read_own
from nodewise.report import evidence
from nodewise.report.claims import compare
from nodewise.results import comparisons, published, queries, studies
from nodewise.results.calibration import read_calibration
from nodewise.results.columns import FIT_COLUMNS
from nodewise.results.manifest import MANIFEST, Manifest
from nodewise.results.record import read_record
from nodewise.results.table_files import typed
from nodewise.results.tables import build_tables
from nodewise.study.config import read_config
from nodewise.study.experiment import EVIDENCE_REPEATS

WORKFLOW = yaml.safe_load(Path(".github/workflows/publish.yml").read_text())
CITATION = yaml.safe_load(Path("CITATION.cff").read_text())
PROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]
RECORDS = Path("data/records")
MOST_CAUTIONS = 0.05  # share of published points
MOST_BYTES = 15_000_000


@pytest.fixture(scope="module")
def tables():
    """Return the tables of the committed records that the site shows."""
    files = read_config(Path("config/published.yaml")).record_files()
    return build_tables(files, published.points(), published_runs=published.runs())


def test_few_published_points_carry_a_caution_and_none_failed(tables):
    assert set(tables["cells"]["status"]) == {"ok"}
    assert (tables["curves"]["flags"] != "").mean() < MOST_CAUTIONS


def counting(claim, tables):
    """Return the cells of the points that count for or against a claim."""
    no_fits = {name: typed((), columns) for name, columns in FIT_COLUMNS.items()}
    rows = evidence.select(compare(claim, tables, no_fits)).dropna(subset="cell_id")
    # not the one node of a speed-up: its cautions are those of the speed-up, which is tested below
    return set(rows[["cell_id", "cell_id_other"]].to_numpy().ravel())


def test_no_point_with_a_caution_is_in_a_comparison_that_counts(tables):
    curves = tables["curves"]
    cautious = set(curves.loc[curves["flags"] != "", "cell_id"])
    speedups = comparisons.on_several_nodes(curves)
    speedups = evidence.select(evidence.check_times(speedups, tables, other="_one"))
    assert len(speedups) > 0
    assert cautious.isdisjoint({*speedups["cell_id"], *speedups["cell_id_one"]})
    claims = [claim for one in studies.studies().values() for claim in one.claims]
    of_claims = {claim.says: counting(claim, tables) for claim in claims}
    assert sum(map(bool, of_claims.values())) > len(of_claims) / 2
    # what strategies learn that wait for all workers does not depend on a busy machine
    waits = set(curves.loc[~queries.never_wait(curves), "cell_id"])
    accuracies = {claim.says for claim in claims if claim.value.endswith("accuracy")}
    for says, cells in of_claims.items():
        assert cautious.isdisjoint(cells - waits if says in accuracies else cells), says


def test_the_committed_records_are_small():
    assert sum(one.stat().st_size for one in RECORDS.rglob("*") if one.is_file()) <= MOST_BYTES


@pytest.mark.parametrize("path", sorted(RECORDS.rglob(MANIFEST)), ids=str)
def test_a_manifest_says_what_its_records_and_its_calibration_say(path):
    manifest = read_json(Manifest, path)
    assert read_calibration(path.with_name("calibration.json")).status == "ok"
    assert all(read_own(one) for one in path.parent.glob("models/*.json"))
    records = [read_record(one) for one in path.parent.rglob("repeat~*.json")]
    assert {manifest.machine} == {one.provenance.cpu for one in records}
    assert manifest.commits == sorted({str(one.provenance.commit) for one in records})
    assert manifest.first_started_at == min(one.started_at for one in records)
    assert manifest.last_finished_at == max(one.finished_at for one in records)
    assert manifest.calibration_sha256 == file_sha256(path.with_name("calibration.json"))
    launches = Counter(one.cell.experiment for one in records)
    assert {one.name: one.launches for one in manifest.experiments} == launches
    points = {one.cell.id.rpartition("/")[0] for one in records}
    assert sum(one.points for one in manifest.experiments) == len(points)


def test_every_published_point_of_the_reference_run_was_launched_three_times():
    manifests = [read_json(Manifest, path) for path in RECORDS.rglob(MANIFEST)]
    found = [one for of in manifests if of.study == "reference" for one in of.experiments]
    assert found
    assert all(one.launches == EVIDENCE_REPEATS * one.points for one in found)


def test_only_the_deployment_may_write_and_only_pages():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    granted = {name: job.get("permissions") for name, job in WORKFLOW["jobs"].items()}
    assert granted == {"build": None, "deploy": {"pages": "write", "id-token": "write"}}
    assert WORKFLOW["jobs"]["deploy"]["if"] == "github.ref == 'refs/heads/main'"
    assert WORKFLOW["jobs"]["deploy"]["needs"] == "build"


def test_the_citation_is_of_this_version():
    assert {"authors", "cff-version", "message", "title"} <= CITATION.keys()
    assert CITATION["version"] == nodewise.__version__ == PROJECT["version"]
    assert CITATION["license"] == PROJECT["license"]
