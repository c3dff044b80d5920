"""A cell trains on exactly the data and weights that it names and that its study permits."""

from pathlib import Path
from unittest import mock

import pytest
import yaml

import make_records as make
from mistakes import user_error
from nodewise.data.manifest import Manifest
from nodewise.measure.inputs import checked_inputs
from nodewise.models.weights import Pretrained
from nodewise.results.record import WeightsSource

STUDY = yaml.safe_load(Path("config/smoke.yaml").read_text())
PICTURES = "natural_images"


@pytest.fixture
def check(tmp_path):
    """Return a function that checks the inputs of a cell of the MLP, or of a pretrained model.

    `source` is what the study permits, `weights` the origin of the prepared weights.
    """

    def checked(source="any", weights="", pretrained=False, **changes):
        path = tmp_path / "smoke.yaml"
        path.write_text(yaml.safe_dump(STUDY | {"data": {"source": source}}))
        cell = make.cell(**{"model": "densenet121", "dataset": PICTURES} if pretrained else {})
        told = {"dataset": cell.dataset, "title": "Data", "origin": "mirror", "note": None}
        data = Manifest.model_construct(**told | changes)
        found = None
        if weights:
            found = Pretrained(WeightsSource(name="densenet121_imagenet", origin=weights), None)
        with (
            mock.patch("nodewise.data.check_arrays", return_value=data),
            mock.patch("nodewise.models.weights.read_weights", return_value=found),
        ):
            assert checked_inputs(cell, path) == (data, found)

    return checked


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"source": "official"},
        {"origin": "generated"},
        {"source": "official", "pretrained": True, "weights": "official"},
    ],
)
def test_what_a_cell_names_is_taken(check, given):
    check(**given)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"source": "official", "origin": "generated"}, "forcerun prepare_dataset"),
        ({"source": "official", "note": "recompressed"}, "forcerun prepare_dataset"),
        ({"source": "official", "pretrained": True, "weights": "random"}, "prepare_weights"),
    ],
)
def test_data_and_weights_that_the_study_forbids_are_refused(check, given, said):
    assert said in user_error(check, **given)
