"""Models learn: those in models/examples on their own data, small ones on synthetic data."""

from pathlib import Path

import keras
import numpy as np
import pytest
import yaml

from nodewise.core.user_function import Function, parse_spec
from nodewise.data import synthetic
from nodewise.models import registry, user_model

REFERENCE = yaml.safe_load(Path("config/reference.yaml").read_text())
OWN_MODELS = REFERENCE["experiments"]["users_models"]["own_models"]
BATCH = 64


def test_the_reference_run_measures_every_example():
    builds = {own["build"].partition(":")[0] for own in OWN_MODELS.values()}
    assert builds == {str(path) for path in Path("models/examples").glob("*.py")}


@pytest.mark.slow
@pytest.mark.parametrize("own", OWN_MODELS.values(), ids=OWN_MODELS)
def test_an_example_learns(own):
    model = user_model.building(own["build"])()
    (x, y), test = Function(parse_spec(own["dataset"]))()
    before = model.evaluate(*test, BATCH, return_dict=True, verbose=0)["loss"]
    model.fit(x, y, BATCH, epochs=1, steps_per_epoch=60, verbose=0)
    after = model.evaluate(*test, BATCH, return_dict=True, verbose=0)["loss"]
    assert np.isfinite(after)
    assert after < before


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("fashion_cnn", 150), ("mnist_cnn", 100)])
def test_a_small_model_learns_from_a_few_thousand_examples(name, steps):
    """Scores are those of examples that were not seen before: they are taken before an update."""
    keras.utils.set_random_seed(1)
    x, y = synthetic.draw((28, 28, 1), 10, steps * BATCH, seed=1, split=0)
    model = registry.load(name).build()
    first, *_, last = (
        model.fit(x[quarter], y[quarter], BATCH, verbose=0).history
        for quarter in np.split(np.arange(len(x)), 4)
    )
    assert last["loss"][0] < 0.8 * first["loss"][0]
    assert last["accuracy"][0] > 0.5  # chance: 0.1
