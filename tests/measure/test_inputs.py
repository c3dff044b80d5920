"""A cell trains on exactly the data and weights that it names and that its study permits."""

from pathlib import Path
from unittest import mock

import pytest
import yaml

import make_records as make
from nodewise.core.errors import UserError
from nodewise.data.manifest import Manifest
from nodewise.measure.inputs import checked_inputs
from nodewise.models.weights import Pretrained
from nodewise.results.record import WeightsSource

CELL = make.cell()
STUDY = yaml.safe_load(Path("config/smoke.yaml").read_text())


def manifest(**changes):
    told = {"dataset": "fashion_mnist", "title": "Data", "origin": "mirror", "note": None}
    return Manifest.model_construct(**told | changes)


def weights(name="densenet121_imagenet", origin="official"):
    return Pretrained(WeightsSource(name=name, origin=origin), None)


def check_inputs(cell, data, pretrained, config):
    with (
        mock.patch("nodewise.data.check_arrays", return_value=data),
        mock.patch("nodewise.models.weights.read_weights", return_value=pretrained),
    ):
        files = Path("data.json"), Path("weights.json") if pretrained else None
        assert checked_inputs(cell, *files, config) == (data, pretrained)


@pytest.fixture
def config(tmp_path):
    """Return a function that writes a configuration that permits a `source`."""

    def write(source):
        path = tmp_path / "smoke.yaml"
        path.write_text(yaml.safe_dump(STUDY | {"data": {"source": source}}))
        return path

    return write


def test_what_a_cell_names_is_taken(config):
    check_inputs(CELL, manifest(), None, None)
    check_inputs(CELL, manifest(), None, config("official"))
    check_inputs(CELL, manifest(origin="generated"), None, config("any"))


def test_other_data_and_other_weights_are_refused():
    with pytest.raises(UserError, match="trains on fashion_mnist; the manifest is of mnist"):
        check_inputs(CELL, manifest(dataset="mnist"), None, None)
    with pytest.raises(UserError, match="starts from no weights, not densenet121_imagenet"):
        check_inputs(CELL, manifest(), weights(), None)
    pretrained = make.cell(model="densenet121", dataset="natural_images")
    with pytest.raises(UserError, match="starts from densenet121_imagenet, not none"):
        check_inputs(pretrained, manifest(dataset="natural_images"), None, None)


def test_official_forbids_what_was_prepared_by_hand_or_for_another_study(config):
    for data in (manifest(origin="generated"), manifest(note="pixels recompressed")):
        with pytest.raises(UserError, match="forcerun prepare_dataset"):
            check_inputs(CELL, data, None, config("official"))
    images = manifest(dataset="natural_images")
    pretrained = make.cell(model="densenet121", dataset="natural_images")
    check_inputs(pretrained, images, weights(), config("official"))
    with pytest.raises(UserError, match="forcerun prepare_weights"):
        check_inputs(pretrained, images, weights(origin="random"), config("official"))
