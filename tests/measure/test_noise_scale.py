"""The noise scale of the MLP, measured by the command on synthetic examples."""

from pathlib import Path

import numpy as np
import pytest

import projects
from nodewise.core.schema import read_json
from nodewise.data import prepared, synthetic
from nodewise.predict.steps_to_accuracy import find_steps
from nodewise.results.noise_scale import NoiseScale
from nodewise.results.tables import build_tables

pytestmark = pytest.mark.slow


def measure(*arguments, code=0):
    command = ("measure-noise-scale", *map(str, arguments), "--config", "config/study.yaml")
    return projects.finish(projects.start(Path.cwd(), "nodewise", *command), code)


def prepare(folder, examples):
    """Return the manifest of synthetic examples like those of Fashion-MNIST."""
    x, y = synthetic.draw((28, 28, 1), 10, examples, seed=1, split=0)
    prepared.write(
        folder / "data", (x, y), (x[:100], y[:100]), dataset="fashion_mnist",
        origin="generated", seed=1, title="Drawn garments",
    )  # fmt: skip
    return folder / "data/manifest.json"


def test_gradients_get_noisier_while_it_trains_and_a_critical_batch_follows(tmp_path):
    out = tmp_path / "mlp.json"
    measure("fashion_mlp", "--manifest", prepare(tmp_path, 20_000), "--out", out)
    measured = read_json(NoiseScale, out)
    assert [point.step for point in measured.points] == [0, 50, 200]
    assert (measured.model, measured.data.dataset) == ("fashion_mlp", "fashion_mnist")
    scales = []
    for point in measured.points:
        noise, signal = measured.estimates(point)
        assert (noise > 0).all() and signal.mean() > 0
        scales.append(np.mean(noise) / np.mean(signal))
    # The mean gradient shrinks with the loss, while the gradients of examples still differ.
    assert 1 < scales[0] < scales[-1] < 60_000
    tables = build_tables([], None, noise_scale_paths=[out])
    (row,) = find_steps(tables["epochs"], tables["cells"], tables["noise_scale"])
    assert (row["model"], row["dataset"]) == ("fashion_mlp", "fashion_mnist")
    assert 1 < row["critical_batch_low"] <= row["critical_batch"] <= row["critical_batch_high"]


@pytest.mark.parametrize(
    ("model", "examples", "said"),
    [
        ("resnet50", None, "trains no model 'resnet50'; it trains fashion_cnn"),
        ("fashion_mlp", 500, "has 500 examples; measuring the noise scale takes 512"),
    ],
)
def test_what_cannot_be_measured_is_a_mistake(tmp_path, model, examples, said):
    manifest = prepare(tmp_path, examples) if examples else tmp_path / "m.json"
    assert said in measure(model, "--manifest", manifest, "--out", tmp_path / "x.json", code=2)
    assert not (tmp_path / "x.json").exists()
