"""What publishing promises: committed inputs are there and current, its files say what is true."""

import re
import subprocess
import tomllib
from datetime import date
from pathlib import Path

import pytest
import yaml

import nodewise
from nodewise.results.calibration import read_calibrations
from nodewise.results.record import read_record
from nodewise.study.config import read_config

WORKFLOW = yaml.safe_load(Path(".github/workflows/publish.yml").read_text())
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]
COMMANDS = [step["run"] for step in STEPS if "run" in step]
MAKE = [command for command in COMMANDS if command.startswith("make ")]
CITATION = yaml.safe_load(Path("CITATION.cff").read_text())
PROJECT = tomllib.loads(Path("pyproject.toml").read_text())["project"]
# of the schema of the Citation File Format 1.2.0
CFF_REQUIRED = {"authors", "cff-version", "message", "title"}
CFF_KEYS = CFF_REQUIRED | {
    *("abstract", "commit", "contact", "date-released", "doi", "identifiers", "keywords"),
    *("license", "license-url", "preferred-citation", "references", "repository"),
    *("repository-artifact", "repository-code", "type", "url", "version"),
}


# --- committed records ---


def test_the_published_records_are_sound_and_their_own():
    config = read_config(Path("config/published.yaml"))
    ids = [read_record(path).cell.id for path in config.record_files(Path())]
    assert len(ids) == len(set(ids)) > 0
    assert read_calibrations(config.calibration_files())


# --- continuous integration ---


def test_actions_are_pinned_to_a_major_version():
    used = [step["uses"] for step in STEPS if "uses" in step]
    assert len(used) >= 4
    assert all(re.fullmatch(r"actions/[a-z-]+@v\d+", action) for action in used)


def test_only_the_deployment_may_write_and_only_pages():
    assert WORKFLOW["permissions"] == {"contents": "read"}
    granted = {name: job.get("permissions") for name, job in WORKFLOW["jobs"].items()}
    assert granted == {"build": None, "deploy": {"pages": "write", "id-token": "write"}}
    assert WORKFLOW["jobs"]["deploy"]["if"] == "github.ref == 'refs/heads/main'"
    assert WORKFLOW["jobs"]["deploy"]["needs"] == "build"


def test_the_cell_that_the_site_measures_again_is_one_of_the_default_study():
    cells = {cell.id for cell in read_config(Path("config/study.yaml")).cells()}
    page = Path("site/pages/run.md").read_text()
    (named,) = re.findall(r"results/study/records/(\S+)\.json", page)
    assert named in cells
    assert named in Path("workflow/nodewise/cli/measure.py").read_text()


def test_it_runs_the_commands_of_the_readme():
    readme = Path("README.md").read_text()
    assert MAKE == ["make lint", "make test-all", "make site"]
    assert all(command in readme for command in MAKE)


@pytest.mark.parametrize("command", COMMANDS)
def test_its_commands_are_sound_shell(command):
    subprocess.run(["bash", "-n", "-c", command], check=True)


@pytest.mark.parametrize("command", MAKE)
def test_make_knows_what_it_is_asked(command):
    subprocess.run([*command.split(), "--dry-run"], check=True, capture_output=True)


def test_what_is_uploaded_is_what_is_built():
    (uploaded,) = [s["with"]["path"] for s in STEPS if "upload-pages" in s.get("uses", "")]
    assert f'directory("{uploaded}")' in Path("workflow/rules/pages.smk").read_text()


# --- citation and changes ---


def test_the_citation_is_of_this_version_and_of_the_format():
    assert CFF_REQUIRED <= CITATION.keys() <= CFF_KEYS
    assert CITATION["cff-version"] == "1.2.0"
    assert CITATION["type"] in ("software", "dataset")
    assert CITATION["version"] == nodewise.__version__ == PROJECT["version"]
    assert CITATION["license"] == PROJECT["license"]
    assert all("name" in author or "family-names" in author for author in CITATION["authors"])
    assert isinstance(CITATION.get("date-released", date.today()), date)


def test_the_changelog_keeps_its_form():
    text = Path("CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(.+?)\](?: - (\d{4}-\d\d-\d\d))?$", text, re.MULTILINE)
    assert versions[0] == ("Unreleased", "")
    assert len(versions) == len(re.findall(r"^## ", text, re.MULTILINE))
    assert all(released for _, released in versions[1:])
    kinds = {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert set(re.findall(r"^### (.+)$", text, re.MULTILINE)) <= kinds
