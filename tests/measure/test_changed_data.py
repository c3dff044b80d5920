"""Launchers refuse prepared data whose bytes have changed; one line names the file."""

from pathlib import Path

import make_datasets
import projects

CONFIG = ["--config", "config/smoke.yaml"]
CELL = "smoke_steps/fashion_cnn/single/batch~32/nodes~1/repeat~0"


def test_data_that_changed_since_they_were_prepared_are_not_trained_on(tmp_path):
    folder = tmp_path / "results/datasets/fashion_mnist"
    make_datasets.Sample(tmp_path).prepare(out=folder)
    for shared in ("config", "models"):
        (tmp_path / shared).symlink_to(Path(shared).absolute())
    path = folder / "train_0.npy"
    content = path.read_bytes()
    path.write_bytes(content[:-20_000] + bytes(byte ^ 1 for byte in content[-20_000:]))
    said = projects.finish(projects.start(tmp_path, "nodewise", "measure-cell", CELL, *CONFIG), 2)
    assert said.splitlines()[-1] == (
        "nodewise: results/datasets/fashion_mnist/train_0.npy: changed since it was prepared; "
        "remove results/datasets/fashion_mnist to have the dataset prepared again"
    )
    assert "Traceback" not in said
    assert not list((tmp_path / "results/smoke").rglob("*.json"))
