"""Own data that cannot be used: its cells are refused with the reason, and a study goes on."""

import subprocess
import sys
from pathlib import Path

import yaml

from nodewise.results.record import read_record

NODEWISE = Path(sys.executable).with_name("nodewise")
STUDY = {
    "name": "small",
    "title": "A small study",
    "cluster": {"kind": "local"},
    "experiments": {
        "steps": {
            "title": "Steps",
            "study": "nodewise",
            "own_models": {"mine": {"build": "mine.py:build", "dataset": "mine.py:load"}},
            "strategies": {"single": {"nodes": [1]}},
            "batches": [32],
            "extent": {"warmup_steps": 1, "steps": 4, "split_steps": 2},
        }
    },
}
CELL = "steps/mine/single/batch~32/nodes~1/repeat~0"


def test_cells_are_refused_with_what_is_wrong_with_their_data(tmp_path):
    (tmp_path / "mine.py").write_text("def build(): ...\n\ndef load():\n    return 1, 2, 3\n")
    (tmp_path / "models").symlink_to(Path("models").resolve())
    (tmp_path / "study.yaml").write_text(yaml.safe_dump(STUDY))

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [NODEWISE, *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )

    prepare = ("prepare-own-dataset", "mine.py:load", "--out", "data")
    reason = "mine.py:load: must return (train, test), where test may be None, not a tuple of 3"
    done = run(*prepare)
    assert (done.returncode, done.stderr) == (2, f"nodewise: {reason}\n")
    assert not (tmp_path / "data").exists()
    done = run(*prepare, "--keep-refusal")
    assert (done.returncode, done.stderr) == (0, "")
    data = ("--manifest", "data/manifest.json", "--logs", "logs", "--out", "record.json")
    done = run("measure-cell", CELL, "--config", "study.yaml", *data)
    assert done.returncode == 0, done.stderr
    record = read_record(tmp_path / "record.json")
    assert (record.status, record.failure.reason, record.data) == ("refused", reason, None)
