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


def check(folder, source="any", weights="", **changes):
    """Check the inputs of a cell of the MLP, or of a pretrained model.

    `source` is what the study permits, `weights` the origin of the prepared weights.
    """
    path = folder / "smoke.yaml"
    path.write_text(yaml.safe_dump(STUDY | {"data": {"source": source}}))
    cell = make.cell(**{"model": "densenet121", "dataset": "natural_images"} if weights else {})
    told = {"dataset": cell.dataset, "title": "Data", "origin": "mirror", "note": None}
    data, found = Manifest.model_construct(**told | changes), None
    if weights:
        found = Pretrained(WeightsSource(name="densenet121_imagenet", origin=weights), None)
    with (
        mock.patch("nodewise.data.check_arrays", return_value=data),
        mock.patch("nodewise.models.weights.read_weights", return_value=found),
    ):
        assert checked_inputs(cell, path) == (data, found)


@pytest.mark.parametrize(
    ("given", "refused"),
    [
        ({}, ""),
        ({"source": "official"}, ""),
        ({"origin": "generated"}, ""),
        ({"source": "official", "weights": "official"}, ""),
        ({"source": "official", "origin": "generated"}, "forcerun prepare_dataset"),
        ({"source": "official", "note": "recompressed"}, "forcerun prepare_dataset"),
        ({"source": "official", "weights": "random"}, "forcerun prepare_weights"),
    ],
)
def test_a_cell_takes_only_data_and_weights_that_its_study_permits(tmp_path, given, refused):
    if refused:
        assert refused in user_error(check, tmp_path, **given)
    else:
        check(tmp_path, **given)
