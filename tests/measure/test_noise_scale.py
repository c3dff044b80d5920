"""The noise scale of the MLP, measured by the command on synthetic examples."""

from pathlib import Path

import numpy as np
import pytest

import projects
from nodewise.core.schema import read_json
from nodewise.data import prepared, synthetic
from nodewise.results.noise_scale import NoiseScale

pytestmark = pytest.mark.slow

RESULTS = "results/study/noise_scale"


def measure(folder, model, code=0):
    """Measure the noise scale of a model in a folder like the project's."""
    for shared in ("config", "data", "models"):
        (folder / shared).symlink_to(Path(shared).absolute())
    command = ("measure-noise-scale", model, "--config", "config/study.yaml")
    return projects.finish(projects.start(folder, "nodewise", *command), code)


def prepare(folder, examples):
    """Prepare synthetic examples like those of Fashion-MNIST."""
    x, y = synthetic.draw((28, 28, 1), 10, examples, seed=1, split=0)
    about = {"dataset": "fashion_mnist", "origin": "generated", "seed": 1, "title": "Drawn"}
    out = folder / "results/datasets/fashion_mnist"
    prepared.write(out, (x, y), (x[:100], y[:100]), **about)


def test_gradients_get_noisier_while_it_trains(tmp_path):
    prepare(tmp_path, 20_000)
    measure(tmp_path, "fashion_mlp")
    out = tmp_path / RESULTS / "fashion_mlp.json"
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


@pytest.mark.parametrize(
    ("model", "examples", "said"),
    [
        ("resnet50", None, "trains no model 'resnet50'; it trains fashion_cnn"),
        ("fashion_mlp", 500, "has 500 examples; measuring the noise scale takes 512"),
    ],
)
def test_what_cannot_be_measured_is_a_mistake(tmp_path, model, examples, said):
    if examples:
        prepare(tmp_path, examples)
    assert said in measure(tmp_path, model, code=2)
    assert not list((tmp_path / RESULTS).glob("*"))
