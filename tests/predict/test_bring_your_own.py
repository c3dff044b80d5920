"""`nodewise fit`, `predict` and `optimum` with curves that were measured elsewhere."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import commands
import make_calibration
import make_records as make
from mistakes import user_error
from nodewise.core.schema import json_text
from nodewise.predict.answers import OBJECTIVES, STEP_TIME, TrainingJob
from nodewise.predict.curve_predictions import find_answers
from nodewise.predict.fit_file import FitFile, fit_measurements, fit_study, read_fit, write_fit
from nodewise.results.importers import import_curves
from nodewise.results.table_files import write_csv
from nodewise.results.tables import build_tables

HEADER = "curve,nodes,batch_per_worker,step_time_s"
README, TEMPLATE = Path("README.md"), Path("data/templates/measurements.csv")
# bytes, s, s/byte and s: a ring at 100 MB/s
PAYLOAD, LATENCY, BETA, EXAMPLE_S = 4e6, 2e-4, 1e-8, 1e-3


def ring_s(nodes: float, batch: float) -> float:
    """Return the step time according to the law of a ring."""
    exchange = 2 * (nodes - 1) * LATENCY + 2 * (nodes - 1) / nodes * PAYLOAD * BETA
    return EXAMPLE_S * batch + exchange


def csv_of(*rows: str, header: str = HEADER) -> str:
    return "\n".join((header, *rows)) + "\n"


def fitted(tmp_path: Path, text: str) -> FitFile:
    path = tmp_path / "measurements.csv"
    path.write_text(text)
    return fit_measurements(import_curves(path, "csv"))


def predictions(file: FitFile, nodes: list[int], **asked) -> list[dict]:
    """Return the rows of `predict` for these numbers of nodes."""
    found = answered(file, nodes, **asked)
    rows = [row | {"job": one.job.name} for _, one in found for row in one.rows(STEP_TIME)]
    return [row for row in rows if row["nodes"] in nodes]


def answered(file: FitFile, nodes: list[int], **asked):
    """Return the answers; `asked` are the batch, the global batch and conditions of the job."""
    batch = {name: asked.pop(name) for name in ("batch", "global_batch") if name in asked}
    return find_answers(file, nodes, TrainingJob(**asked), **batch)


@pytest.fixture(scope="module")
def ring(tmp_path_factory) -> FitFile:
    points = itertools.product((1, 2, 3, 4), (32, 64, 128))
    rows = [f"mine,{n},{batch},{ring_s(n, batch)!r},{PAYLOAD:.0f}" for n, batch in points]
    text = csv_of(*rows, header=f"{HEADER},payload_bytes")
    return fitted(tmp_path_factory.mktemp("ring"), text)


# what is fitted and predicted


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ("rings", "curve 'a', column collective: law rings: unknown; .*: .*compressed, .*star"),
        ("averaging", r"law averaging: must be written averaging\(period=…\)"),
        ("averaging(period=0)", "period: must be 1 or more, not 0"),
    ],
)
def test_a_law_that_there_is_not_is_answered_by_those_that_are_known(tmp_path, law, message):
    text = csv_of(f"a,1,64,0.5,{law}", header=f"{HEADER},collective")
    assert re.search(message, user_error(fitted, tmp_path, text))


@pytest.mark.parametrize("rows", [["a,4,64,1.0"], ["a,2,64,1", "a,4,64,10"], ["a,1,64,1"]])
def test_few_points_have_an_answer_or_are_said_to_have_none(tmp_path, rows):
    file = fitted(tmp_path, csv_of(*rows))
    ((_, found),) = answered(file, [1, 2, 4, 8, 64])
    json.dumps(found.rows(), allow_nan=False)
    assert (not found.best_for) == found.sentence().startswith("Unknown")
    if len(rows) == 1:  # nothing to compare with
        assert found.best_for == {} and found.table["speedup"].isna().all()
    json.dumps(predictions(file, [1, 2, 64]), allow_nan=False)


def test_a_ring_is_found_again_far_beyond_what_was_measured(ring):
    rows = predictions(ring, [1, 8, 64], batch=64)
    for row in rows:
        truth = ring_s(row["nodes"], 64)
        assert row["step_time_s"] == pytest.approx(truth, rel=0.1)
        assert row["low"] <= truth <= row["high"]
        assert row["samples_per_s"] == pytest.approx(row["nodes"] * 64 / row["step_time_s"])


def test_every_measured_batch_is_predicted_unless_one_is_asked_for(ring):
    batches = {row["batch_per_worker"] for row in predictions(ring, [2])}
    assert batches == {32, 64, 128}
    (row,) = predictions(ring, [2], global_batch=100)
    assert row["batch_per_worker"] == 50


def test_a_curve_of_one_global_batch_stays_at_it(tmp_path):
    rows = [f"a,{n},{256 // n},{ring_s(n, 256 / n)!r},{PAYLOAD:.0f}" for n in (1, 2, 3, 8)]
    file = fitted(tmp_path, csv_of(*rows, header=f"{HEADER},payload_bytes"))
    found = predictions(file, [1, 3, 300])
    assert [row["batch_per_worker"] for row in found] == [256, pytest.approx(256 / 3)]
    ((_, answers),) = answered(file, range(1, 65))
    assert answers.table["global_batch"].to_numpy() == pytest.approx(256)


def test_only_a_global_batch_that_grows_may_need_more_epochs(tmp_path):
    for batch, grows in ((lambda n: 64, True), (lambda n: 256 // n, False)):
        rows = [f"a,{n},{batch(n)},{ring_s(n, batch(n))!r}" for n in (1, 2, 4)]
        write_fit(tmp_path / "fit.json", fitted(tmp_path, csv_of(*rows)))
        output = commands.run("optimum", tmp_path / "fit.json").stdout
        assert ("--converges-like" in output) is grows


def test_epochs_of_unknown_length_tell_epochs_and_no_more(tmp_path):
    examples = 60_000
    epochs = [f"a,{n},64,{ring_s(n, 64) * examples / (n * 64)!r}" for n in (1, 2, 3, 4)]
    file = fitted(tmp_path, csv_of(*epochs, header=HEADER.replace("step_time", "epoch_time")))
    (row,) = predictions(file, [2])
    assert (row["step_time_s"], row["samples_per_s"]) == (None, None)
    truth = ring_s(2, 64) * examples / 128
    assert (row["job"], row["time"]) == ("epoch", pytest.approx(truth, rel=0.05))
    assert row["time_low"] <= truth <= row["time_high"]
    (row,) = predictions(file, [2], examples=examples)
    assert row["step_time_s"] == pytest.approx(ring_s(2, 64), rel=0.05)
    assert row["time"] == pytest.approx(truth, rel=0.05)


@pytest.mark.parametrize("last", ["", f",{PAYLOAD:.0f}"])
def test_far_beyond_an_efficiency_over_100_percent_is_possible_but_not_predicted(tmp_path, last):
    header = f"{HEADER},payload_bytes" if last else HEADER
    for four, most in ((0.19, 1.0), (0.12, 1.5)):
        rows = [f"a,1,64,0.18{last}", f"a,4,64,{four}{last}"]
        ((_, answers),) = answered(fitted(tmp_path, csv_of(*rows, header=header)), [1, 4, 8, 64])
        assert (answers.efficiency[0] <= np.array([1, most, 1, 1]) * (1 + 1e-9)).all()
        assert (answers.step_s >= answers.step_s[:, :1] / most - 1e-12).all()
        assert last or answers.table["efficiency_high"].iloc[-1] > 0.9 * most


def test_a_curve_without_a_collective_is_fitted_as_a_ring(tmp_path):
    curves = itertools.product((1, 2), (("a", "tree"), ("b", "")))
    rows = [f"{name},{n},64,{1 + n / 9},{of},{PAYLOAD:.0f}" for n, (name, of) in curves]
    file = fitted(tmp_path, csv_of(*rows, header=f"{HEADER},collective,payload_bytes"))
    assert [curve.collective for curve in file.curves] == ["tree", "ring"]
    assert "no collective given: a ring is assumed" in file.curves[1].notes


def width(file: FitFile, nodes: int) -> float:
    (row,) = predictions(file, [nodes], batch=64)
    return (row["high"] - row["low"]) / row["step_time_s"]


def test_parts_that_were_measured_narrow_the_interval(tmp_path):
    rows = [f"a,{n},64,{ring_s(n, 64)!r},{PAYLOAD:.0f}" for n in (1, 2, 3)]
    parts = [
        f"{row},{ring_s(1, 64)!r},{ring_s(n, 64) - ring_s(1, 64)!r}"
        for n, row in enumerate(rows, 1)
    ]
    header = f"{HEADER},payload_bytes"
    whole = fitted(tmp_path, csv_of(*rows, header=header))
    apart = fitted(tmp_path, csv_of(*parts, header=f"{header},compute_s,communicate_s"))
    assert width(apart, 16) < width(whole, 16)


COLLECTIVES = ["ring", "halving_doubling", "tree", "star", "parameter_server", "none"]


@pytest.mark.parametrize(
    "collective", [*COLLECTIVES, "averaging(period=8)", "compressed(density=0.1)"]
)
def test_every_collective_is_fitted_stored_and_asked(tmp_path, collective):
    rows = [f"a,{n},64,{1 + 0.1 * np.log2(n)},5,{collective}" for n in (1, 2, 4, 8)]
    file = fitted(tmp_path, csv_of(*rows, header=f"{HEADER},payload_bytes,collective"))
    write_fit(tmp_path / "fit.json", file)
    again = read_fit(tmp_path / "fit.json")
    assert again.curves == file.curves
    before, after = (predictions(one, [4, 16]) for one in (file, again))
    for old, new in zip(before, after, strict=True):
        for name in ("step_time_s", "low", "high"):
            assert new[name] == pytest.approx(old[name], rel=1e-3)
    assert after[0]["step_time_s"] == pytest.approx(1.2, rel=0.2)


NUMBERS = st.floats(1e-9, 1e9) | st.sampled_from([1e-9, 1e9, 1.0])
EXTREME = st.lists(
    st.tuples(
        st.sampled_from(["a", "b"]), st.integers(1, 65_536), st.integers(1, 10**9), NUMBERS, NUMBERS
    ),
    min_size=1,
    max_size=6,
)


@example(
    rows=[("a", 1, 1, 2.0, 1), ("a", 1, 2, 1.0, 1), ("a", 2, 1, 8.0, 1), ("a", 11, 3, 1e-9, 1)],
    collective="parameter_server",
    cluster="",
)
@given(rows=EXTREME, collective=st.sampled_from(COLLECTIVES), cluster=st.sampled_from(["", "x"]))
def test_whatever_is_read_is_fitted(tmp_path_factory, rows, collective, cluster):
    # Queues are computed for one worker after the other, which takes long for many.
    if collective == "parameter_server":
        rows = [(curve, min(n, 16), b, t, c) for curve, n, b, t, c in rows]
    lines = [
        f"{curve},{n},{b},{t!r},{min(c, t)!r},{1e6 if curve == 'a' else 1e9},{collective},{cluster}"
        for curve, n, b, t, c in rows
    ]
    header = f"{HEADER},compute_s,payload_bytes,collective,cluster"
    file = fitted(tmp_path_factory.mktemp("extreme"), csv_of(*lines, header=header))
    write_fit(tmp_path_factory.mktemp("extreme") / "fit.json", file)
    for row in predictions(file, [1, 3, 16]):
        assert np.isfinite(row["step_time_s"])
        assert 0 <= row["low"] <= row["step_time_s"] <= row["high"] < np.inf


# fit.json


def test_the_same_measurements_give_the_same_file(tmp_path):
    for name in ("one.json", "two.json"):
        write_fit(tmp_path / name, fit_measurements(import_curves(TEMPLATE, "csv")))
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()


def test_a_damaged_fit_is_one_clear_line(tmp_path, ring):
    path, whole = tmp_path / "fit.json", json.loads(ring.model_dump_json())
    (fit,) = whole["fits"]
    first, *others = fit["coefficients"]
    without_draws = [one | {"draws": []} for one in fit["coefficients"]]
    for wrong in (others, without_draws, [first | {"value": float("nan")}, *others]):
        path.write_text(json.dumps(whole | {"fits": [fit | {"coefficients": wrong}]}))
        assert user_error(read_fit, path).startswith(f"{path}: ")
    other_law = {"fits": [fit | {"collective": "parameter_server"}]}
    later = {"version": 7, "more": 1}
    for change, said in ((other_law, "the file"), ({"more": 1}, "more"), (later, "version: 7 is")):
        path.write_text(json.dumps(whole | change))
        assert user_error(read_fit, path).startswith(f"{path}: {said}")


# the best number of nodes


def test_an_objective_that_needs_more_says_so(ring):
    ((_, answers),) = answered(ring, [1, 2], batch=64)
    for objective, wrong in (("deadline", "needs --deadline"), ("profit", "must be one of knee")):
        assert f"--objective {objective}: {wrong}" in user_error(answers.sentence, objective)


# the commands


def test_predict_prints_what_the_readme_shows(tmp_path):
    file = tmp_path / "fit.json"
    assert commands.run("fit", TEMPLATE, "-o", file).stdout.endswith(f"{file}: 2 curves\n")
    printed = commands.run("predict", file, "--nodes", "1,8", "--batch", 64).stdout
    printed, note, _ = printed.partition("cifar10_cnn: one batch per worker")
    assert note in commands.run("predict", file, "--nodes", 8, "--json").stderr
    shown = re.search(r"`predict` prints:\n\n```text\n(.*?)```", README.read_text(), re.DOTALL)[1]
    number = re.compile(r"\d[\d.]*")
    words = [number.sub("#", text.replace("─", "")).split() for text in (shown, printed)]
    told, found = (list(map(float, number.findall(text))) for text in (shown, printed))
    assert words[0] == words[1]
    assert told == pytest.approx(found, rel=0.02)  # processors round differently
    output = commands.run("optimum", file, "--batch", 64).stdout
    assert "knee" in output and "fastest" in output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--batch", 4, "--global-batch", 8), "--batch and --global-batch: give one of them"),
        (("--global-batch", 2, "--nodes", "3-5"), "--nodes 3: is more than the examples"),
    ],
)
@pytest.mark.parametrize("command", ["predict", "optimum"])
def test_options_that_do_not_fit_are_refused(tmp_path, ring, command, arguments, message):
    write_fit(tmp_path / "fit.json", ring)
    assert commands.refusal(command, tmp_path / "fit.json", *arguments).startswith(message)


@pytest.mark.parametrize("option", ["--batch", "--examples", "--price"])
def test_numbers_that_mean_nothing_are_refused(tmp_path, ring, option):
    write_fit(tmp_path / "fit.json", ring)
    for wrong in ("0", "-1", "nan", "x", "1" + 400 * "0"):
        assert commands.refusal("optimum", tmp_path / "fit.json", option, wrong)


def test_conditions_of_a_run_reach_the_table(tmp_path, ring):
    asked = ("optimum", tmp_path / "fit.json")
    write_fit(asked[1], ring)
    given = ("--price", "2 EUR", "--deadline", "2h", "--watts", 90)
    counts = "64:256000,256:409600,1024:1024000"
    given += ("--budget", 3, "--batch", 64, "--samples-to-target", counts)
    (row,) = commands.ask(*asked, *given)
    assert (row["job"], row["units"]) == ("run", {"time": "s", "cost": "EUR", "energy": "Wh"})
    assert set(row["best"]) == set(OBJECTIVES)
    assert 0 <= row["nodes"][3]["chance"] <= 1
    output = commands.run(*asked, *given).stdout
    assert "Cost to target [EUR]" in output and "Chance" in output
    assert "Cost [node-hours]" in commands.run(*asked).stdout
    for wrong in (("--deadline", "soon"), ("--deadline", "0s"), ("--samples-to-target", "64:1e5")):
        assert commands.refusal(*asked, *wrong)
    said = commands.refusal(*asked, "--batch", 4, "--batches", "4,8")
    assert said == "--batch and --batches: give one of them"
    assert "--examples: has no effect" in commands.refusal(*asked, *given, "--examples", 9)


def test_a_study_is_fitted_from_its_folder_or_its_table(tmp_path):
    records = Path("data/records/epyc-25-2-cores/emulated")
    table = tmp_path / "curve_points.csv"
    write_csv(build_tables(sorted(records.rglob("repeat~*.json")))["curve_points"], table)
    (tmp_path / "fits").mkdir()
    commands.run("fit", table, "-o", tmp_path / "fits/fit.json")
    assert fit_study(records).curves == read_fit(tmp_path).curves
    make.write(make.launches(nodes=(1, 2), strategy=("mpi",)), tmp_path)
    fits = fit_study(tmp_path).fits
    made = make_calibration.calibration((2,)).model_copy(update={"cluster": make.cell().cluster})
    (tmp_path / "calibration.json").write_text(json_text(made))
    assert fit_study(tmp_path).fits != fits
    commands.run("next", tmp_path)
    said = commands.refusal("fit", "site", "-o", tmp_path / "a.json")
    assert "holds no measured step times" in said
