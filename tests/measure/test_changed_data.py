"""Launchers refuse prepared data whose bytes have changed; one line names the file."""

import subprocess
import sys
from pathlib import Path

import make_datasets
from nodewise.data import prepare

NODEWISE = Path(sys.executable).with_name("nodewise")
CONFIG = ["--config", "config/smoke.yaml"]
CELL = "smoke_steps/fashion_cnn/single/batch~32/nodes~1/repeat~0"


def test_data_that_changed_since_they_were_prepared_are_not_trained_on(tmp_path):
    registry = make_datasets.write_registry(tmp_path / "registry.yaml", make_datasets.entry())
    prepare(
        "sample", registry=registry, cache=tmp_path / "cache", mirror=None, source="any",
        out=tmp_path / "data",
    )  # fmt: skip
    path = tmp_path / "data" / "train_0.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-20_000] + bytes(byte ^ 1 for byte in content[-20_000:]))
    done = subprocess.run(
        [NODEWISE, "measure-cell", CELL, *CONFIG, "--manifest", path.with_name("manifest.json"),
         "--logs", tmp_path / "logs", "--out", tmp_path / "out.json"],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert done.stderr.splitlines()[-1] == (
        f"nodewise: {path}: changed since it was prepared; prepare it again: "
        f"nodewise prepare sample --out {path.parent}"
    )
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.json").exists()
