"""The models in models/examples train on their own data, as configured in the reference run."""

from pathlib import Path

import numpy as np
import pytest
import yaml

from nodewise.core.user_function import Function, parse_spec
from nodewise.models import user_model

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
