"""The speed factors of devices agree with published and measured values."""

import pandas as pd
import pytest

from nodewise.predict.devices import DEVICES, OUR_PICTURES_PER_S
from nodewise.predict.published_curves import PUBLISHED

BENCHMARK = "a benchmark of Horovod"
NAMES = {"K80": "K80 (half)", "P40": "P40", "P100": "P100-PCIe", "V100": "V100-PCIe"}


def test_the_speeds_of_the_benchmark_are_those_of_its_curves():
    rows = pd.read_csv(PUBLISHED)
    one = rows[(rows["n_devices"] == 1) & (rows["model"] == "resnet50")]
    medians = one.groupby("device")["value"].median()
    told = {one.title: one.pictures_per_s for one in DEVICES if one.source == BENCHMARK}
    assert len(told) == len(medians) == len(NAMES)
    for title, pictures_per_s in told.items():
        name = title.split(",")[0].removeprefix("NVIDIA ")
        assert pictures_per_s == pytest.approx(medians[NAMES[name]], rel=0.01)


def test_a_core_of_ours_is_as_fast_as_in_the_committed_records():
    rows = pd.read_parquet("tests/golden/predictions.parquet")
    mine = rows[(rows["model"] == "resnet50") & (rows["source"] == "emulated")]
    (point,) = mine[(mine["nodes"] == 1) & mine["observed_s"].notna()].to_dict("records")
    rate = point["batch_per_worker"] / point["observed_s"]
    assert rate == pytest.approx(OUR_PICTURES_PER_S, rel=0.1)


def test_devices_have_different_factors_and_all_are_faster():
    factors = [device.times_as_fast for device in DEVICES]
    assert len(set(factors)) == len(factors)
    assert min(factors) > 1
