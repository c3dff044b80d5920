"""The noise scale of the MLP, measured by the command on real or synthetic examples."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nodewise import data as datasets
from nodewise.data import prepared, synthetic
from nodewise.predict.steps_to_accuracy import find_noise
from nodewise.results.noise_scale import read_noise_scale
from nodewise.results.tables import build_tables

pytestmark = pytest.mark.slow

NODEWISE = Path(sys.executable).with_name("nodewise")
CONFIG = "config/study.yaml"


def measure(*arguments):
    command = [NODEWISE, "measure-noise-scale", *map(str, arguments), "--config", CONFIG]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def prepare(folder, examples):
    """Return the manifest of Fashion-MNIST if it is available, else of synthetic examples."""
    mirror = os.environ.get("NODEWISE_DATASETS")
    if mirror and examples is None:
        datasets.prepare(
            "fashion_mnist", registry=Path("data/datasets.yaml"), cache=folder / "cache",
            mirror=mirror, source="any", out=folder / "data", seed=1,
        )  # fmt: skip
        return folder / "data/manifest.json"
    x, y = synthetic.draw(
        (28, 28, 1), 10, examples or 20_000, seed=1, split=0, advance=lambda made: None
    )
    prepared.write(
        folder / "data", prepared.Arrays(x, y, x[:100], y[:100]), dataset="fashion_mnist",
        origin="generated", seed=1, title="Drawn garments", classes=tuple("abcdefghij"),
    )  # fmt: skip
    return folder / "data/manifest.json"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("noise")
    manifest = prepare(folder, None)
    done = measure("fashion_mlp", "--manifest", manifest, "--out", folder / "mlp.json")
    assert done.returncode == 0, done.stderr
    return folder / "mlp.json"


def test_noise_and_signal_are_seen_at_every_point(result):
    measured = read_noise_scale(result)
    assert [point.step for point in measured.points] == [0, 50, 200]
    assert measured.model == "fashion_mlp"
    assert measured.data.dataset == "fashion_mnist"
    for point in measured.points:
        noise, signal = measured.estimates(point)
        assert (noise > 0).all()
        assert signal.mean() > 0


def test_while_it_trains_gradients_get_noisier(result):
    """The mean gradient shrinks with the loss, while the gradients of examples still differ."""
    measured = read_noise_scale(result)
    scales = [np.divide(*map(np.mean, measured.estimates(p))) for p in measured.points]
    assert 1 < scales[0] < scales[-1] < 60_000


def test_it_becomes_a_table_and_a_critical_batch(result):
    tables = build_tables([], None, noise_scale_paths=[result])
    ((key, law),) = find_noise(tables["noise_scale"])
    assert key[:2] == ("fashion_mlp", "fashion_mnist")
    low, high = law.critical_batch_interval
    assert 1 < low <= law.critical_batch <= high


def test_the_same_seed_measures_the_same(result, tmp_path):
    data = result.parent / "data/manifest.json"
    done = measure("fashion_mlp", "--manifest", data, "--out", tmp_path / "mlp.json")
    assert done.returncode == 0, done.stderr
    first, again = read_noise_scale(result), read_noise_scale(tmp_path / "mlp.json")
    assert again.points[0].big_squares == pytest.approx(first.points[0].big_squares, rel=1e-3)


@pytest.mark.parametrize(
    ("model", "said"),
    [
        ("resnet50", "trains no model 'resnet50'; it trains fashion_cnn"),
        ("../x", "trains no model"),
    ],
)
def test_a_model_that_the_study_does_not_train_is_refused(tmp_path, model, said):
    done = measure(model, "--manifest", tmp_path / "m.json", "--out", tmp_path / "x.json")
    assert done.returncode == 2
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "x.json").exists()


def test_too_few_examples_are_said(tmp_path):
    manifest = prepare(tmp_path, 500)
    done = measure("fashion_mlp", "--manifest", manifest, "--out", tmp_path / "x.json")
    assert done.returncode == 2
    assert "has 500 examples; measuring the noise scale takes 512" in done.stderr
    assert not (tmp_path / "x.json").exists()
