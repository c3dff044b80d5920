"""Why training is not faster: each cause, generated from its formula, is found again."""

import shlex

import numpy as np
import pytest

import commands
import make_records as make
from nodewise.predict import causes as c
from nodewise.predict.causes import Slowdown, total
from nodewise.predict.cluster_steps import Topology, Training
from nodewise.predict.explain import MEASUREMENTS
from nodewise.results.posted_numbers import read_numbers
from nodewise.results.tables import build_tables

RESNET, VGG = "--parameters 25.6e6 --batch 64", "--parameters 138e6 --batch 32"
NVLINK = "--within nvlink3 --parameters 1e6"


def ask(options):
    """Return the answer of the command."""
    return commands.ask("explain", *shlex.split(options))


def series(step, unit="s", counts=(2, 4, 8), more=""):
    """Return the options of one device and of several, whose times a function gives, and `more`."""
    at = "".join(f" --at {n}='{step(n)} {unit}'" for n in counts[:-1])
    last = counts[-1]
    return f"--one '{step(1)} {unit}' --many '{step(last)} {unit}' --devices {last}{at} {more}"


def rates(one, many, unit="images/s"):
    return f"--one '{one} {unit}' --many '{many} {unit}' "


def controls(value):
    """Return the options of runs without input and without exchange that take as long."""
    return f"--synthetic '{value} s' --no-sync '{value} s' "


GENERATED = {
    # 2·3/4·552 MB at 0.95 GB/s, of which 40 % of the shorter of the two is hidden
    c.BYTES: f"--one 0.25s --many {0.25 * 0.6 + 0.87}s --devices 4 --between 10gbit-tcp {VGG}",
    # 102 MB at 0.11 GB/s
    c.LINK: f"--one 0.18s --one-devices 8 --many {0.18 + 0.93}s --devices 16 --devices-per-node 8 "
    f"--between 100gbit-rdma --sums all-reduce --synthetic 1.1s {RESNET}",
    # 300 messages, each of 1 ms and twice
    c.MESSAGES: "--one 50ms --many 650ms --devices 8 --tensors 300 --no-sync 50ms "
    "--between 100gbit-rdma --parameters 1e6 --batch 8 --sums all-reduce",
    c.INPUT: rates(400, 900) + f"--synthetic '3000 images/s' --devices 8 --within nvlink2 {RESNET}",
    # one server receives and sends 102 MB of each of 8 nodes at 0.95 GB/s
    c.SERVERS: f"--one 0.3s --many {0.3 + 8 * 0.102 / 0.95 * 1.5}s --devices 8 --sums servers=1 "
    f"--between 10gbit-tcp {RESNET}",
    c.STRAGGLERS: series(lambda n: 0.2 * (1 + 0.2 * np.log2(n))) + f"--no-sync 0.2s {NVLINK}",
    # half of a step does not shrink with the batch
    c.SHORT: controls(0.05625)
    + series(lambda n: 0.1 * (0.5 + 0.5 / n), more=f"--global-batch 256 {NVLINK}"),
    c.CORES: controls(0.8)
    + series(lambda n: 0.2 * max(1, n / 4), counts=(2, 4, 8, 16), more=f"--cores 16 {NVLINK}"),
    c.LOGGING: series(lambda n: 0.2 + 0.1 * (n > 1)) + controls(0.3) + f"--cores 256 {NVLINK}",
    c.CONFUSED: "--one 0.5s --many 0.56s --devices 4 --within pcie3 --parameters 25.6e6",
    c.ALONE: series(lambda n: 400, "images/s") + f"--synthetic '400 images/s' {RESNET}",
    # each device reads the whole data set, with a little exchange
    c.WHOLE: series(lambda n: 100 * (1 + 0.03 * np.log2(n)), "s/epoch")
    + "--synthetic '109 s/epoch' --parameters 25.6e6 --within pcie3",
    c.SPARSE: series(lambda n: 0.3 + 0.15 * (n - 1), counts=(2, 4, 8, 16, 32))
    + "--embedding --sums all-reduce --parameters 210e6 --between 25gbit-tcp --synthetic 4.95s",
}


SMALL = "--one 50ms --many 150ms --devices 8 --between 10gbit-tcp --parameters 1e6"


# each of two nodes sums the gradients of its devices before it sends them to one server
OF_NODES = (
    f"--one 0.2s --one-devices 8 --many {0.2 + 2 * 0.102 / 0.95 * 1.5}s --devices 16 "
    f"--devices-per-node 8 --sums servers=1 --between 10gbit-tcp {RESNET}"
)
# four devices read less from one disk than one does
LESS_INPUT = "--one 49s/epoch --many 82s/epoch --devices 4 --within nvlink3"
# one server delivers 0.69 s of bytes to each worker, while others compute
SATURATED = (
    "--one '22.3 images/s' --at '2=44 images/s' --at '4=46.6 images/s' --many '48 images/s' "
    "--devices 8 --synthetic '48 images/s' --devices-per-node 1 --sums servers=1 --between 1gbit "
    "--batch 32 --parameters 23.8e6"
)
MORE = [
    *((c.MESSAGES, SMALL), (c.SERVERS, OF_NODES), (c.SERVERS, SATURATED), (c.INPUT, LESS_INPUT)),
    # a small model of CIFAR-10
    (c.SHORT, "--one 27s/epoch --many 32s/epoch --devices 2 --global-batch 32 --parameters 2.7e5"),
]


@pytest.mark.parametrize(("cause", "options"), [*GENERATED.items(), *MORE])
def test_a_cause_that_generated_the_numbers_is_named_first(cause, options):
    answer = ask(options)
    assert answer["causes"][0]["name"] == cause and not answer["normal"]
    assert answer["measure"] is None if answer["decided"] else answer["measure"]


def test_no_overlap_cannot_be_told_from_a_slow_link_unless_the_link_was_measured():
    answer = ask("--one 0.5s --many 0.94s --devices 4 --between 10gbit-tcp --parameters 138e6")
    assert c.NO_OVERLAP in {row["name"] for row in answer["causes"][:4]}


def test_shares_and_probabilities_are_consistent():
    answer = ask("--one 120ms --many 210ms --devices 4")
    assert sum(row["probability"] for row in answer["causes"]) == pytest.approx(1)
    assert sum(row["share"] for row in answer["causes"]) == pytest.approx(1)
    assert all(0 <= row["low"] <= row["share"] <= row["high"] <= 1 for row in answer["causes"])
    assert not answer["decided"]
    assert answer["measure"] in set(MEASUREMENTS.values())


TWO_NODES = "--one-devices 8 --devices 16 --devices-per-node 8 --sums all-reduce"
EMBEDDING, SPARSE = "--parameters 110e6 --embedding", [c.BYTES, c.SPARSE]


@pytest.mark.parametrize(
    ("options", "measure", "causes"),
    [
        (rates(400, 1000) + f"--devices 8 --within nvlink2 {RESNET}", "synthetic", []),
        (rates(2800, 1900) + f"{TWO_NODES} --between 100gbit-rdma {RESNET}", "link", []),
        (rates(100, 600, "s/epoch") + "--devices 8 --link 10gbit --sums all-reduce", "payload", []),
        (f"--one 3.0s --many 2.95s --devices 8 {RESNET}", "batch", []),
        # Without the link, a slow exchange may be that link or another.
        (rates(608, 250) + f"{TWO_NODES} {RESNET}", "link", [c.LINK, c.BYTES]),
        # A run without exchange is not asked for where it lacks both causes.
        (
            rates(36, 105, "min/run") + f"{TWO_NODES} --between 25gbit-tcp {EMBEDDING}",
            "third",
            SPARSE,
        ),
    ],
)
def test_numbers_that_do_not_decide_name_the_measurement_that_would(options, measure, causes):
    answer = ask(options)
    assert not answer["decided"] and answer["measure"] == MEASUREMENTS[measure]
    assert [row["name"] for row in answer["causes"][: len(causes)]] == causes


def test_the_batch_says_nothing_about_the_time_of_a_step_where_tokens_are_counted():
    options = "--one '2558 tokens/s' --many '580 tokens/s/gpu' --devices 4 --parameters 8e9"
    answer = ask(f"{options} --batch 2")
    assert answer["causes"] == ask(options)["causes"]
    assert answer["implied_gbyte_per_s"] is None


def test_slower_steps_are_read_with_the_examples_that_they_have():
    assert "2.27 times the examples/s" in ask("--one 0.789s --many 1.39s --devices 4")["read"][-1]


def test_weak_scaling_with_a_high_efficiency_is_normal():
    answer = ask(rates(400, 3000) + f"--devices 8 {RESNET}")
    assert answer["normal"] and answer["decided"] and answer["causes"] == []
    assert answer["efficiency"] == pytest.approx(3000 / 3200)


@pytest.mark.parametrize("efficiency", [0.8, 0.3])
def test_step_times_and_the_same_in_examples_per_second_have_the_same_causes(efficiency):
    steps = ask(f"--one 0.16s --many {0.16 / efficiency}s --devices 8 {RESNET}")
    rated = ask(rates(400, 3200 * efficiency) + f"--devices 8 {RESNET}")
    for answer in (steps, rated):
        answer["causes"] = {row["name"]: row["probability"] for row in answer["causes"]}
    assert steps["causes"] == pytest.approx(rated["causes"])
    assert (steps["normal"], steps["efficiency"]) == (rated["normal"], pytest.approx(efficiency))


def test_a_measured_link_is_the_link_in_use():
    link = "data/records/epyc-26-2-cores/study/calibration.json"
    answer = ask(f"--one 0.18s --many 2s --devices 4 --between {link} {RESNET}")
    assert c.LINK not in {row["name"] for row in answer["causes"]}


@pytest.mark.parametrize(
    ("options", "measure"),
    [
        (rates(400, 9000) + f"--devices 8 {RESNET}", "units"),
        (f"--one 120ms --many 20ms --devices 4 {RESNET}", "units"),
        ("--one 120ms --many 210ms --devices 1 --batch 64", "--cores"),
        ("--one 87s --one-devices 8 --many 112s --devices 8 --cores 368", "Trace a step"),
    ],
)
def test_numbers_that_cannot_be_and_two_of_one_device_do_not_decide(options, measure):
    told = ask(options)
    assert not told["decided"] and measure in told["measure"]
    assert measure != "units" or not (told["normal"] or told["remedies"] or told["causes"])


@pytest.mark.parametrize(
    ("cause", "factor"), [(c.INPUT, 3000 / 900), (c.LINK, 1.11 / 0.25), (c.ALONE, 8)]
)
def test_the_remedy_of_a_cause_brings_back_what_it_took(cause, factor):
    answer = ask(GENERATED[cause])
    remedy = next(row for row in answer["remedies"] if row["for"] == cause)
    assert remedy["gain"] == pytest.approx(factor, rel=0.3)
    assert remedy["low"] <= remedy["value"] <= remedy["high"]


def test_a_smaller_exchange_is_a_remedy_where_bytes_take_long():
    remedies = {row["name"]: row for row in ask(GENERATED[c.BYTES])["remedies"]}
    halved = remedies["gradients in 16 bits"]
    assert 1.2 < halved["gain"] < 2
    assert halved["value"] == pytest.approx(1.02 / halved["gain"], rel=0.01)
    assert remedies["exchange every 8th step (accumulate or average)"]["gain"] > halved["gain"]
    shown = commands.run("explain", *shlex.split(GENERATED[c.BYTES])).stdout
    assert c.BYTES in shown and "Remedy" in shown


def test_the_same_devices_in_one_node_are_a_reference():
    options = "--one '50 samples/s' --one-devices 3 --many '22 samples/s' --devices 3 --batch 8"
    nodes = "--one-nodes 1 --devices-per-node 1 --parameters 212e6 --link 10gbit-tcp"
    apart = ask(f"{options} {nodes}")
    assert apart["causes"][0]["name"] == c.BYTES and apart["decided"]
    same = {row["name"] for row in ask(options)["causes"] if row["probability"] > 0.1}
    assert same <= {c.CORES, c.LOGGING, c.SHORT}


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ("", "--many"),
        ("--one 1s --many 2s", "--devices"),
        ("mine.csv --one 1s --many 2s --devices 2", "file"),
        ("mine.csv --devices 2", "file"),
        ("data/templates/measurements.csv", "curves"),
        ("--one 1s --many '2 images/s' --devices 4", "quantity"),
        ("--one 1s --many 2s --devices 4 --at 9=2s", "--at"),
        ("--one 1s --many 2s --devices 2 --one-devices 4", "--devices"),
        ("--one 1s --many 2s --devices 4 --at 2", "devices=value"),
        ("--one 1s --many 2s --devices 4 --at ²=1s", "--at"),
        ("--one 1s --many 2s --devices 4 --one-nodes 2", "--one-nodes"),
        ("--one 1s --many 2s --devices 4 --sums me", "--sums"),
        ("--one 1s --many 2s --devices 4 --sums all-reduce=2", "--sums"),
        ("--one 1s --many 2s --devices 4 --between fast", "link fast"),
        ("--one 1s --many 2s --devices 4 --batch 8 --global-batch 8", "--batch"),
        ("--one 1s --many 2s --devices 4 --precision int3", "precision"),
    ],
)
def test_a_wrong_option_is_one_line(options, named):
    assert named in commands.refusal("explain", *shlex.split(options))


def test_a_table_of_measurements_is_explained_as_its_numbers_are(tmp_path):
    rows = [f"mine,{n},64,{step},102400000" for n, step in ((1, 0.16), (2, 0.3), (8, 0.55))]
    file = tmp_path / "mine.csv"
    file.write_text("\n".join(["curve,nodes,batch_per_worker,step_time_s,payload_bytes", *rows]))
    answer = ask(f"{file} --link 10gbit-tcp")
    assert answer["efficiency"] == pytest.approx(0.16 / 0.55)
    assert len(answer["read"]) == 3
    for wrong in ("--batch 32", "--global-batch 64", "--one-nodes 2"):
        assert wrong.split()[0].strip("-") in commands.refusal("explain", file, *wrong.split())


def test_a_table_of_one_global_batch_is_explained_as_its_numbers_are(tmp_path):
    file, size = tmp_path / "mine.csv", "--parameters 25.6e6 --link 10gbit-tcp"
    file.write_text("curve,nodes,global_batch,step_time_s\na,1,256,1\na,8,256,0.25\n")
    posted = "--one '256 images/s' --many '1024 images/s' --devices 8 --global-batch 256"
    assert ask(f"{file} {size}") == ask(f"{posted} {size}")


def test_what_helps_most_is_a_remedy_of_the_cause():
    across = "--one-devices 8 --devices 16 --devices-per-node 8 --between 100gbit-rdma"
    answer = ask(f"--one 22s --many 24s {across}")
    assert answer["decided"] and answer["remedies"][0]["for"] == c.INPUT
    assert c.CONFUSED in answer["sentence"] and "What helps" not in answer["sentence"]


def test_a_step_without_causes_takes_what_cluster_steps_says():
    posted = read_numbers("1s", 1, "2s", 4, [])
    steps = Slowdown(posted, Topology(1, None, None), Training(1e6))
    of_bytes = total(steps.parts(1, usual=True))[0]
    assert of_bytes == pytest.approx(np.ones_like(of_bytes))


def test_the_implied_rate_is_bytes_over_extra_time():
    faster = "--one 0.5s --many '5 steps/s' --devices 4 --at 2=0.4s --parameters 1e9"
    assert ask(faster)["implied_gbyte_per_s"] is None
    slower = "--one '100 images/s' --many '32 images/s/device' --devices 4 --batch 64"
    rate = ask(f"{slower} --parameters 25e6 --link 10gbit-tcp")["implied_gbyte_per_s"]
    assert rate == pytest.approx(2 * 0.75 * 0.1 / (4 * 64 / 128 - 0.64))


def test_of_several_runs_on_the_same_devices_the_median_counts(tmp_path):
    paths = make.write(make.launches(nodes=(1, 2), strategy=("mpi",)), tmp_path)
    median = build_tables(paths)["cells"].groupby("nodes")["examples_per_s"].median()
    for order in (paths, paths[::-1]):
        found = ask(" ".join(map(str, order)))
        assert found["efficiency"] == pytest.approx(median[2] / median[1] / 2)


def test_input_for_which_a_worker_waits_most_of_a_step_is_the_cause(tmp_path):
    def explained(share):
        def waiting(worker):
            return {"input_us": round(share * sum(worker.step_us))}

        records = [make.record(make.cell(nodes=nodes)) for nodes in (1, 2)]
        records = [make.with_workers(record, waiting) for record in records]
        return ask(" ".join(map(str, make.write(records, tmp_path))))

    found = explained(0.8)
    assert found["input_share"] == pytest.approx(0.8, abs=0.01)
    assert [cause["name"] for cause in found["causes"]] == [c.INPUT]
    assert "80 %" in found["sentence"]
    assert explained(0.2)["causes"] != found["causes"]
