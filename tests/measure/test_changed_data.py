"""Launchers refuse prepared data whose bytes have changed; one line names the file."""

from pathlib import Path

import make_datasets
import projects

CONFIG = ["--config", "config/smoke.yaml"]
CELL = "smoke_steps/fashion_cnn/single/batch~32/nodes~1/repeat~0"


def test_data_that_changed_since_they_were_prepared_are_not_trained_on(tmp_path):
    sample = make_datasets.Sample(tmp_path)
    sample.prepare()
    path = sample.out / "train_0.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-20_000] + bytes(byte ^ 1 for byte in content[-20_000:]))
    command = ("measure-cell", CELL, *CONFIG, "--manifest", f"{sample.out}/manifest.json")
    written = ("--logs", f"{tmp_path}/logs", "--out", f"{tmp_path}/out.json")
    said = projects.finish(projects.start(Path.cwd(), "nodewise", *command, *written), 2)
    assert said.splitlines()[-1] == (
        f"nodewise: {path}: changed since it was prepared; "
        f"remove {path.parent} to have the dataset prepared again"
    )
    assert "Traceback" not in said
    assert not (tmp_path / "out.json").exists()
