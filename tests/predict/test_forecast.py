"""`nodewise forecast` answers how many devices to use, from one point and the links."""

import json
from functools import partial
from pathlib import Path

import forecast as bench
import pandas as pd
import pytest

import commands
from nodewise.strategies.declaration import hidden_share

STEP = ("--step-time", "0.1", "--batch", "64")
NODES = ("--devices-per-node", "8", "--within", "nvlink2", "--between", "100gbit-rdma")
RECORD = Path(
    "data/records/epyc-25-2-cores/full/full_densenet/densenet121/single/batch~64/nodes~1"
    "/repeat~0.json"
)
CALIBRATION = "data/records/epyc-26-2-cores/study/calibration.json"

ways = commands.run, commands.ask, commands.refusal
show, run, refusal = (partial(one, "forecast") for one in ways)


def test_devices_in_a_node_and_full_nodes_are_compared():
    rows = run(*STEP, *NODES, "--parameters", "25.6e6", "--nodes", "1,2,8,9")
    nodes = {1: 1, 2: 1, 4: 1, 8: 1, 16: 2, 64: 8, 72: 9}
    assert {row["devices"]: row["nodes"] for row in rows} == nodes and len(rows) == len(nodes)
    # published cases have up to 64 devices
    assert [row["kind"] for row in rows] == ["measured"] + ["forecast"] * 5 + ["extrapolated"]
    *_, far = run(*STEP, *NODES, "--parameters", "25.6e6", "--nodes", 9, "--given-devices", 72)
    assert far["kind"] == "measured"
    assert (rows[0]["low"], rows[0]["step_time_s"], rows[0]["high"]) == (0.1, 0.1, 0.1)
    assert all(row["low"] < row["step_time_s"] < row["high"] for row in rows[1:])
    for row in rows:
        assert row["samples_per_s"] == pytest.approx(row["devices"] * 64 / row["step_time_s"])


def test_a_slow_link_takes_the_time_of_its_bytes():
    asked = (*STEP, "--parameters", "1e7", "--link", "1gbit-tcp", "--nodes", "4")
    *_, four = run(*asked, "--strategy", "keras_jax")
    assert four["step_time_s"] == pytest.approx(0.1 + 1.5 * 4e7 / (125e6 * 0.89), rel=0.05)


def test_what_a_strategy_hides_is_taken_off_the_shorter_of_computing_and_sending():
    for size in ("1e6", "1e7"):  # First sending takes less time than computing, then more.
        asked = (*STEP, "--link", "1gbit-tcp", "--nodes", "4", "--parameters", size, "--strategy")
        *_, plain = run(*asked, "keras_jax")  # hides nothing
        *_, told = run(*asked, "mpi")
        shorter = min(0.1, plain["step_time_s"] - 0.1)
        saved = plain["step_time_s"] - told["step_time_s"]
        assert saved == pytest.approx(hidden_share("mpi") * shorter, rel=0.1)


@pytest.mark.parametrize("given", [("--throughput", 4000), ("--step-time", 0.128, "--batch", 64)])
def test_a_whole_node_can_be_given(given):
    asked = ("--given-devices", 8, *NODES, "--parameters", "25.6e6", "--nodes", "1,2")
    rows = run(*given, *asked)
    by = {row["devices"]: row for row in rows}
    assert by[8]["samples_per_s"] == pytest.approx(4000)
    assert [n for n, row in by.items() if row["kind"] == "measured"] == [8]
    assert 500 < by[1]["samples_per_s"] < 4000 / 7


def test_several_measured_numbers_of_devices_narrow_a_forecast(tmp_path):
    path = tmp_path / "mine.csv"
    table = pd.DataFrame({"curve": "mine", "nodes": [1, 2, 4], "batch_per_worker": 64})
    table.assign(step_time_s=[0.1, 0.15, 0.18], payload_bytes=4e7).to_csv(path, index=False)
    asked = ("--link", "10gbit", "--nodes", "1-16")
    many = run("--given", path, *asked)[-1]
    one = run(*STEP, *SIZE, *asked)[-1]
    assert many["high"] / many["low"] < one["high"] / one["low"]
    assert [row["kind"] for row in run("--given", path, *asked)].count("measured") == 3
    assert "with 1, 2, 4" in refusal("--given", path, "--given-devices", 8, *asked)
    # `fit` and `predict`, which know nothing of the link, agree
    commands.run("fit", path, "-o", tmp_path / "fit.json")
    (told,) = commands.ask("predict", tmp_path / "fit.json", "--nodes", 8)
    eight = next(row for row in run("--given", path, *asked) if row["devices"] == 8)
    assert told["low"] < eight["step_time_s"] < told["high"]
    assert eight["low"] < told["step_time_s"] < eight["high"]


def test_a_table_says_how_many_devices_are_in_a_node(tmp_path):
    path = tmp_path / "mine.csv"
    table = pd.DataFrame({"curve": "mine", "n_devices": [1, 8], "devices_per_node": 8})
    table = table.assign(batch_per_device=64, quantity="step_time", value=[100, 110], unit="ms")
    table.to_csv(path, index=False)
    asked = ("--given", path, "--parameters", "25.6e6", "--between", "100gbit-rdma")
    rows = run(*asked, "--within", "nvlink2", "--nodes", "1,2")
    assert [(row["devices"], row["nodes"]) for row in rows][-2:] == [(8, 1), (16, 2)]


def test_a_log_is_a_given_point(tmp_path):
    path = tmp_path / "run.log"
    path.write_text("Epoch 1/1\n" + "\n".join(f"{i}/9 - 2s - 180ms/step - loss: 1" for i in (9,)))
    asked = ("--batch", 64, "--parameters", "25.6e6", "--link", "10gbit", "--nodes", "1,2")
    one, _ = run("--given", path, "--given-devices", 1, *asked)
    assert one["step_time_s"] == pytest.approx(0.18)
    path.write_text("Number of devices: 2\n" + path.read_text())  # which names no model
    *_, two = run("--given", path, *asked)
    assert two["step_time_s"] == pytest.approx(0.18)
    path.write_text("curve,nodes,samples_per_s\nmine,1,400\n")
    one, _ = run("--given", path, *asked)
    assert one["step_time_s"] == pytest.approx(64 / 400)
    path.write_text("curve,nodes,epoch_time_s,examples\nmine,1,100,50000\n")
    one, _ = run("--given", path, *asked)
    assert one["step_time_s"] == pytest.approx(64 / 500)
    path.write_text("curve,nodes,batch_per_worker,epoch_time_s\nmine,1,64,400\n")
    assert "times of epochs need a column examples" in refusal("--given", path, *asked)


def test_a_rate_is_a_given_point_without_its_batch(tmp_path):
    path = tmp_path / "chart.csv"
    path.write_text('"Step","train/samples_per_second"\n"0","400"\n')
    done = show("--given", path, "--given-devices", 8, "--parameters", "25.6e6", *NODES)
    assert "Step" not in done.output and "the rate of training is train/" in done.output
    assert "no --batch" in done.output


def test_a_table_of_one_global_batch_goes_on_with_it(tmp_path):
    path = tmp_path / "mine.csv"
    table = pd.DataFrame({"curve": "mine", "nodes": [1, 2, 4], "global_batch": 256})
    table.assign(step_time_s=[1, 0.55, 0.32]).to_csv(path, index=False)
    rows = run("--given", path, *SIZE, "--link", "10gbit", "--nodes", "1-8")
    assert [row["kind"] for row in rows].count("measured") == 3
    assert {row["batch_per_device"] * row["devices"] for row in rows} == {256}
    assert 0.16 < rows[-1]["low"] < rows[-1]["step_time_s"] < 0.32


def test_tokens_are_examples_and_sharded_parameters_are_gathered_too():
    asked = ("--batch", 8192, "--parameters", 7e9, "--within", "nvlink4", "--nodes", "1,8")
    for rate in ("10k tokens/s", 10_000):
        one, ring = run("--throughput", rate, *asked)
        assert one["step_time_s"] == pytest.approx(0.8192)
    assert run("--throughput", rate, *asked, "--exchange", "fsdp")[-1]["low"] > ring["low"]


def test_a_record_is_a_given_point_and_one_that_was_disturbed_is_never_called_measured(tmp_path):
    asked = ("--link", "1gbit", "--nodes", "1,2")
    one, two = run("--given", RECORD, *asked)
    assert (one["kind"], one["low"]) == ("measured", one["high"])
    content = json.loads(RECORD.read_text())
    content["result"]["conditions"]["outside"] = ["other processes used 30 % of the cores' time"]
    disturbed = tmp_path / "record.json"
    disturbed.write_text(json.dumps(content))
    unsure, wider = run("--given", disturbed, *asked)
    assert unsure["kind"] == "forecast" and unsure["low"] < one["step_time_s"] < unsure["high"]
    assert wider["high"] / wider["low"] > two["high"] / two["low"]
    shown = show("--given", disturbed, *asked).stdout
    assert "not measured" not in shown and "30 %" in shown


def test_of_several_batches_each_number_of_devices_gets_the_one_that_is_done_soonest():
    asked = (*STEP, *NODES, "--parameters", "25.6e6", "--nodes", "1-8")
    target = ("--samples-to-target", "1024:1e6,65536:4e6")
    best = run(*asked, *target, "--batches", "16,64,256")
    assert {row["batch_per_device"] for row in best} == {64, 256}
    for row, alone in zip(best, run(*asked, *target), strict=True):
        assert row["time"] <= alone["time"] * (1 + 1e-9)
        if row["batch_per_device"] == 64:
            assert row["time"] == pytest.approx(alone["time"])
    for wrong in ("--global-batch", "64"), ("--batches", "many"):
        assert refusal(*asked, *target, "--batches", "8,16", *wrong)


def test_a_calibrated_cluster_tells_its_link():
    asked = (*STEP, *SIZE, "--nodes", "2", "--strategy", "multi_worker_mirrored")
    *_, told = run(*asked, "--link", CALIBRATION)
    *_, named = run(*asked, "--link", "500mbit-tcp")
    assert told["step_time_s"] == pytest.approx(named["step_time_s"], rel=0.1)


def test_a_price_gives_the_cost_of_epochs():
    asked = ("--parameters", "25.6e6", "--price", "3 EUR", "--nodes", "1")
    for epochs in (1, 90):
        one = run(*STEP, *NODES, *asked, "--examples", "64e3", "--epochs", epochs)[0]
        seconds = pytest.approx(100 * epochs)
        assert (one["time"], one["cost"] * 3600 / 3) == (seconds, seconds)
    assert "--examples" in refusal(*STEP, *NODES, *asked, "--epochs", 90)


LINK, SIZE = ("--link", "1gbit"), ("--parameters", "1e7")
KERAS, HOROVOD = "tests/results/files/keras.txt", "tests/results/files/horovod.txt"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((*LINK, "--step-time", "0", "--batch", "64"), "--step-time 0 s: must be above 0"),
        ((*LINK, "--step-time", "100ms"), "0.1 s per step on 1 device: needs --batch"),
        ((*LINK, "--throughput", "9k tokens/s"), "9,000 tokens/s on 1 device: needs --batch"),
        ((*LINK, *SIZE, "--throughput", "9 s/epoch"), "must be a rate or the time of a step"),
        ((*LINK, *STEP, "--throughput", "3"), "give one of --step-time, --throughput"),
        (LINK, "give one of --step-time, --throughput"),
        ((*LINK, *SIZE, "--given", "LICENSE"), "nodewise import --pattern"),
        ((*LINK, *STEP, "--parameters", "-1"), "--parameters -1.0: must be a number above 0"),
        ((*LINK, *STEP, *SIZE, "--precision", "int3"), "--precision int3: must be one of"),
        ((*LINK, *STEP, "--parameters", "25.6"), "--parameters 25.6: must be a whole number"),
        ((*LINK, *STEP), "needs --parameters"),
        ((*LINK, *STEP, *SIZE, "--within", "pcie3"), "--link: is the only link"),
        ((*LINK, *STEP, *SIZE, "--device", "V100"), "--device: has no effect without --machines"),
        ((*LINK, *STEP, *SIZE, "--strategy", "async_sgd"), "async_sgd: must be one of custom_loop"),
        ((*STEP, *SIZE, "--link", "wifi"), "link wifi: must be "),
        ((*STEP, *SIZE), "give --link, or --between"),
        ((*LINK, "--cases", "cases.csv"), "--cases: --link has no effect beside it"),
        ((*STEP, *SIZE, "--within", "pcie3", "--between", "1gbit"), "--within: needs --devices"),
        ((*LINK, *STEP, *SIZE, "--nodes", "64", "--global-batch", "9"), "--global-batch: has less"),
        ((*LINK, *SIZE, "--throughput", "3", "--batches", "16"), "--batches: need --batch"),
        ((*LINK, "--given", RECORD, "--batch", "128"), "--batch 128: "),
        ((*LINK, "--given", RECORD, "--given-devices", "2"), "--given-devices 2: "),
        ((*LINK, *STEP, *SIZE, "--given-devices", "8"), "needs --devices-per-node"),
        ((*LINK, *SIZE, "--given", KERAS), "give `forecast --given-devices`"),
        ((*LINK, *SIZE, "--given", KERAS, "--given-devices", "2"), "give `forecast --batch`"),
        ((*LINK, *SIZE, "--given", HOROVOD, "--given-devices", "2"), "was measured with 4"),
        ((*LINK, "--model", "cnn", "--given-devices", "2"), "no effect beside --model"),
        ((*LINK, *STEP, *SIZE, "--exchange", "fdsp"), "--exchange fdsp: must be one of ring"),
        ((*LINK, *STEP, *SIZE, "--deadline", "1h"), "--deadline: needs --examples"),
        ((*LINK, *STEP, *SIZE, "--converges-like", "resnet", "--examples", "9"), "--examples: has"),
    ],
)
def test_a_question_that_means_nothing_is_one_line(arguments, said):
    assert said in refusal(*arguments)


def test_a_table_of_cases_is_answered_row_by_row(tmp_path):
    row = {"case": "a", "model": "ResNet-50", "parameters": 25.6e6, "precision": "fp16/amp"}
    row |= {"device": "V100", "devices_per_node": 8, "within_kind": "nvlink2", "exchange": "nccl"}
    row |= {"between_gbit": 100, "transport": "rdma", "batch_per_device": 64, "n_devices": 16}
    row |= {"baseline_devices": 1, "throughput_samples_per_s": 700, "value": "mine", "minutes": 9}
    wrong = {"parameters": "many", "transport": "pigeon", "exchange": "foo", "n_devices": 1.5}
    rows = [row, row | {"transport": ""}, row | {"within_kind": "x" * 300}]
    rows += [row | {name: text} for name, text in wrong.items()]
    path = tmp_path / "cases.csv"
    pd.DataFrame([row | {"n_devices": 1}]).to_csv(path, index=False)
    (same,) = run("--cases", path)
    assert (same["low"], same["value"], same["high"]) == (700, 700, 700)  # as measured
    assert "minutes" not in same and "700" in show("--cases", path).stdout
    pd.DataFrame(rows).to_csv(path, index=False)
    known, any_transport, too_long, *refused = run("--cases", path)
    assert too_long["error"].startswith("within_kind")
    assert known["case"] == "a"
    assert 700 < known["low"] < known["value"] < known["high"] < 16 * 1.2 * 700
    assert any_transport["high"] / any_transport["low"] > known["high"] / known["low"]
    for text, one in zip(wrong.values(), refused, strict=True):
        assert "value" not in one and str(text) in one["error"]
    pd.DataFrame(rows).drop(columns="n_devices").to_csv(path, index=False)
    assert refusal("--cases", path).endswith("lacks the columns n_devices")


@pytest.mark.slow
def test_publishers_left_out_are_met_as_well_as_is_claimed():
    rows = bench.all_judged()
    told = bench.summary(rows)
    assert told["median"] < 0.06 and 0.85 < told["covered"] < 0.95
    assert bench.summary(rows[rows["inside"]])["median"] < 0.05
    kinds = bench.table(rows).query("points >= 20")
    assert kinds["covered"].min() > 0.75
