"""What the page *Your case* offers: links with their judged errors, and real and own presets."""

import pandas as pd
import pytest

from nodewise.report.pages.your_case import BETWEEN, WITHIN, links, own_presets, published_presets
from nodewise.results import published


def test_a_link_has_the_error_of_its_kind_or_of_the_nearest_that_was_judged():
    p90 = published.read("forecast/judged").set_index("link")["p90"]
    within = links("within", WITHIN, {"rate": "pcie"})
    between = links("between", BETWEEN, {"rate-tcp": "tcp"})
    assert within["nvlink3"]["off"] == p90["nvlink3"]
    assert within["nvlink1"]["off"] == p90["nvlink2"]  # 12 points are too few
    assert within["rate"]["off"] == p90["pcie3"]
    assert within["rate"]["link"] == {"pcie": None}
    assert within["unknown"]["off"] == p90["all"]
    assert between["10gbit-tcp"] == {
        "title": "10 Gbit/s Ethernet (TCP)",
        "link": {"tcp": 1.25e9},
        "judged": "50 Gbit/s Ethernet (TCP)",
        "off": p90["50gbit-tcp"],
        "points": 93,
        "publishers": 1,
    }
    assert between["400gbit-rdma"]["off"] == p90["100gbit-rdma"]
    assert between["8x400gbit-rdma"]["off"] == p90["all"]  # several cards: few points


def test_presets_of_real_devices_say_what_was_published():
    found = {one["title"]: one for one in published_presets()}
    case = found["ResNet-50, fp32, batch 64: 8 × V100, NVLink 2, 100 Gbit/s RDMA"]
    # data/published/curves/scaling_curves.csv, fleetx-resnet50-fp32-b64
    assert (case["parameters"], case["speed"], case["batch"]) == ("25.6", "353.38", "64")
    assert (case["inside"], case["within"], case["between"]) == ("8", "nvlink2", "100gbit-rdma")
    assert case["measured"] == {1: 353.38, 8: 2643.75, 16: 5325.44, 32: 10536.83}
    several = [one for one in found.values() if "several" in one["group"]]
    assert len(several) > 25 and len(found) > 100


def test_our_models_are_named_for_what_they_are_in_the_time_of_a_full_core():
    about = {"curve": "c", "rate_mbit": 100.0, "cpu_share": 0.2, "payload_bytes": 94_220_328.0}
    rows = [
        about | {"model": model, "nodes": nodes, "batch_per_worker": 64, "step_time_s": step_s}
        for model in ("resnet50", "somebodys_own")
        for nodes, step_s in ((1, 0.5), (2, 1.0))
    ]
    (preset,) = own_presets(pd.DataFrame(rows))
    assert preset["title"] == "ResNet50 at 32×32 pixels, batch 64"
    assert float(preset["parameters"]) == pytest.approx(23.555082, rel=1e-5)
    assert preset["measured"] == {1: 128.0, 2: 128.0}
    assert (preset["speed"], preset["between"]) == ("128", "rate-tcp")
    assert preset["between_gbit"] == "0.5"
