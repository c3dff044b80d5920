"""Chart titles state findings, which follow from points that count as evidence, or nothing."""

import itertools

import pandas as pd
import pytest

import make_calibration
import make_records as make
from nodewise.core.units import write_number
from nodewise.predict.study import ALL_POINTS, read_overhead
from nodewise.report import evidence
from nodewise.report.figures import (
    ALL_REDUCES,
    FIGURES,
    MODELS,
    _findings,
    _formula_findings,
    draw_figures,
)
from nodewise.report.figures._words import times
from nodewise.report.figures.calibration import all_reduce_times
from nodewise.results.columns import PARTS
from nodewise.results.tables import build_tables


def thrice(**cells):
    """Return records of three launches of each cell; `n` and `batch` are lists of axis values."""
    numbers, batches = cells.pop("n"), cells.pop("batch", [512])
    points = itertools.product(numbers, batches, range(3))
    return [make.record(make.cell(n=n, batch=b, repeat=r, **cells)) for n, b, r in points]


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Return the tables of two batches on one and on two nodes, with three launches each."""
    folder = tmp_path_factory.mktemp("titles")
    return build_tables(make.write(thrice(n=[1, 2], batch=[32, 512]), folder), make.published())


@pytest.fixture(scope="module")
def fitted(tmp_path_factory):
    """Return the tables of the same study on up to three nodes, together with its fits."""
    folder = tmp_path_factory.mktemp("fitted")
    records = thrice(n=[1, 2, 3], batch=[32, 512])
    return make.write_study(folder, records, make.published()) | read_overhead(folder / "overhead")


def findings(tables):
    return {
        figure.figure: figure.finding for figure in draw_figures(tables, {}, {}) if figure.finding
    }


def speedup(tables, batch):
    curves = tables["curves"].set_index(["nodes", "batch_per_worker"])["examples_per_s"]
    return curves[2, batch] / curves[1, batch]


def test_speed_ups_are_told_at_the_largest_batch_and_at_the_smallest(tables):
    large, small = (f"{speedup(tables, batch):#.2g}" for batch in (512, 32))
    said = f"2 nodes are {large} times as fast as one at batch 512, {small} times at batch 32"
    assert findings(tables)["speedup"] == said


def test_efficiency_is_a_share_of_ideal_scaling(tables):
    large, small = (f"{50 * speedup(tables, batch):.0f}\u00a0%" for batch in (512, 32))
    said = f"2 nodes reach {large} of ideal scaling at batch 512, {small} at batch 32"
    assert findings(tables)["efficiency"] == said


def test_the_batch_from_which_several_nodes_are_faster_is_told(tables):
    assert speedup(tables, 32) < 1 < speedup(tables, 512)
    assert findings(tables)["batches"] == "2 nodes are faster than one from batch 512 on"


def test_the_largest_part_of_a_step_besides_computing_is_told(tables):
    curves = tables["curves"].set_index(["nodes", "batch_per_worker"])
    point = curves.loc[(2, 32), [f"{part}_s" for part in ("input", "wait", "communicate", "apply")]]
    assert point.idxmax() == "communicate_s"
    assert findings(tables)["split"].startswith("On 2 nodes communicating takes ")


def test_where_nearly_all_of_a_step_is_computing_that_is_told(tables):
    none = {f"{part}_s": 0.0 for part in PARTS if part != "compute"}
    said = findings(tables | {"curves": tables["curves"].assign(**none)})["split"]
    assert said == "On 2 nodes computing takes more than 99\u00a0% of a step"


def test_points_that_do_not_count_give_no_finding_but_what_is_published(tables):
    few = tables["curves"].assign(repeats=evidence.LAUNCHES - 1)
    found = findings(tables | {"curves": few})
    assert "time" in found
    assert all(said.startswith("Published: ") for said in found.values())


def test_training_times_are_told_beside_those_of_one_node(tables):
    curves = tables["curves"].set_index(["nodes", "batch_per_worker"])["epoch_time_s"]
    two, one = (write_number(5 * curves[nodes, 512], "s") for nodes in (2, 1))
    said = f"5 epochs take {two} on 2 nodes, {one} on one, at batch 512"
    assert findings(tables)["time"] == said


def test_times_that_are_not_clearly_apart_are_not_told(tables):
    curves = tables["curves"]
    wide = curves.assign(
        step_time_low_s=curves["step_time_s"] / 3, step_time_high_s=3 * curves["step_time_s"]
    )
    said = "2 nodes are not clearly faster than one at batch 512"
    assert findings(tables | {"curves": wide})["time"] == said


def test_published_times_are_told_as_published(tables):
    rows = make.published().set_index(["nodes", "batch_per_worker"])["training_time_s"]
    three, one = (write_number(rows[nodes, 512], "s") for nodes in (3, 1))
    few = tables["curves"].assign(repeats=1)
    said = f"Published: 5 epochs take {three} on 3 nodes, {one} on one, at batch 512"
    assert findings(tables | {"curves": few})["time"] == said


def test_accuracies_and_losses_are_told_of_whole_trainings(tmp_path):
    records = thrice(n=[1, 2], extent=make.EPOCHS)
    tables = build_tables(make.write(records, tmp_path), make.published())
    found = findings(tables)
    reached = tables["curves"].set_index("nodes")["train_accuracy"]
    said = f"{reached[2]:.3f} training accuracy on 2 nodes, {reached[1]:.3f} on one, after 5 epochs"
    assert found["accuracy"] == f"{said} at batch 512"
    last = tables["epochs"].query("epoch == 5").groupby("nodes")["loss"].median().sort_values()
    assert found["loss-by-epoch"] == (
        f"After 5 epochs the training loss is {last.iloc[0]:.3f} with Single process, "
        f"{last.iloc[-1]:.3f} with MultiWorkerMirroredStrategy"
    )
    once = tables["epochs"].query("repeat == 0")
    told = findings(tables | {"epochs": once})["loss-by-epoch"]
    assert told == f"After 5 epochs the training loss is {last.iloc[0]:.3f} to {last.iloc[-1]:.3f}"


def test_the_part_that_strategies_differ_in_is_told_with_those_that_differ_most(tmp_path):
    ways = ["custom_loop", "mpi", "multi_worker_mirrored"]
    records = [one for way in ways for one in thrice(n=[2], strategy=way)]
    tables = build_tables(make.write(records, tmp_path), None)
    curves = tables["curves"]
    slow = curves["communicate_s"].where(curves["strategy"] != "mpi", 5 * curves["communicate_s"])
    curves = curves.assign(communicate_s=slow)
    parts = curves.set_index("strategy")[[f"{part}_s" for part in (*PARTS, "input")]]
    share = parts["communicate_s"] / parts.sum(axis=1)
    said = findings(tables | {"curves": curves})["ways-parts"]
    least, most = (f"{100 * of:.0f}\u00a0%" for of in (share.min(), share["mpi"]))
    assert said.startswith(f"On 2 nodes communicating takes {least} of a step with ")
    assert f", {most} with MPI" in said
    alike = {f"{part}_s": 0.1 for part in (*PARTS, "input")} | {"communicate_s": 0.4}
    said = findings(tables | {"curves": curves.assign(**alike)})["ways-parts"]
    assert said == "On 2 nodes communicating takes 50\u00a0% of a step with each strategy"
    none = {f"{part}_s": 0.0 for part in (*PARTS, "input") if part != "compute"}
    said = findings(tables | {"curves": curves.assign(**none)})["ways-parts"]
    assert said == "On 2 nodes computing takes more than 99\u00a0% of a step with each strategy"


def drawn(tables, name):
    (figure, *_) = [one for one in draw_figures(tables, {}, {}) if one.figure == name]
    return figure


def test_a_formula_is_told_with_its_worst_error_at_points_that_it_did_not_see(fitted):
    figures = [one for one in draw_figures(fitted, {}, {}) if one.figure == "fit"]
    figure = next(one for one in figures if (one.data["role"] == "held out").any())
    held = figure.data[figure.data["role"] == "held out"]
    off = (held["fitted_s"] / held["observed_s"] - 1).abs().max()
    assert len(held) and figure.finding == (
        f"The formula is off by at most {100 * off:.0f}\u00a0% at {len(held)} points left out of "
        "its fit"
    )
    bare = fitted | {"trials": fitted["trials"].iloc[:0]}
    assert drawn(bare, "fit").finding.endswith(" points it was fitted to")


@pytest.mark.parametrize(
    ("role", "errors", "said"),
    [
        (
            "held out",
            [0.01, -0.2],
            "The formula is off by at most 20 % at 2 points left out of its fit",
        ),
        ("held out", [0.2], "Too little to judge the formula: one point left out of its fit"),
        ("observed", [0.01], "Too little to judge the formula: one point it was fitted to"),
        (
            "observed",
            [0.002, 0],
            "The formula is off by less than 1 % at 2 points it was fitted to",
        ),
    ],
)
def test_the_error_of_a_formula_is_told_of_several_points_as_it_is(role, errors, said):
    points = pd.DataFrame({"fitted_s": [1 + error for error in errors], "observed_s": 1.0})
    told = _formula_findings.describe_fit(points.assign(role=role, scenario=ALL_POINTS))
    assert told.replace("\u00a0", " ") == said


def test_an_interval_whose_ends_are_the_same_number_is_told_as_one():
    row = {"role": "predicted", "nodes": 8, "batch_per_worker": 64, "low": 3.99, "high": 4.01}
    said = _formula_findings.describe_reach(pd.DataFrame([row]))
    assert "8 nodes are 4.0 times as fast as one at batch 64 (" in said


def test_what_a_formula_says_of_most_nodes_is_told_as_the_formula_s(fitted):
    figure = drawn(fitted, "outlook")
    line = figure.data[figure.data["role"] != "observed"].set_index(["nodes", "batch_per_worker"])
    last = line["speedup"].loc[10]
    assert figure.finding == (
        f"By the formula, 10 nodes are {times(last[512])} as fast as one at batch 512, "
        f"{times(last[32])} at batch 32"
    )
    figure = drawn(fitted, "reach")
    ends = figure.data[(figure.data["nodes"] == 64) & (figure.data["batch_per_worker"] == 512)]
    low, high = (times(ends[end].iloc[0]).removesuffix(" times") for end in ("low", "high"))
    assert figure.finding.startswith("By the formula, 64 nodes are ")
    assert f"{low} to {high} times as fast as one at batch 512" in figure.finding


def test_savings_are_told_beside_what_the_study_foresaw(fitted):
    figure = drawn(fitted, "saved")
    rows = figure.data.set_index(["role", "nodes"])
    theirs = rows.loc["foreseen by the study"].iloc[-1]
    ours = rows.loc["predicted"].loc[theirs.name]
    assert figure.finding.startswith(
        f"By the formulas, {theirs.name} nodes save {100 * ours['saved']:.0f}\u00a0% of the time"
    )
    assert figure.finding.endswith(f"the study foresaw {100 * theirs['saved']:.0f}\u00a0%")


def test_improvements_are_those_of_the_study_and_ours(fitted):
    figure = drawn(fitted, "improvement")
    rows = figure.data[(figure.data["nodes"] == 3) & (figure.data["title"] != "Mean")]
    theirs = rows.loc[rows["kind"] == "published", "saved"].iloc[0]
    said = f"Published: 3 nodes save {100 * theirs:.0f}\u00a0% of the training time"
    assert figure.finding == said  # Our point on three nodes has a caution, so it does not count.


def test_an_improvement_here_says_of_how_many_of_the_models_it_is():
    rows = [
        ("published", "a", 0.2, pd.NA),
        ("published", "b", 0.6, pd.NA),
        ("emulated", "a", 0.4, 3),
    ]
    rows = pd.DataFrame(rows, columns=["kind", "model", "saved", "repeats"])
    said = _findings.describe_improvements(rows.assign(nodes=3, flags=""))
    assert said.replace("\u00a0", " ") == (
        "Published: 3 nodes save 20 % to 60 % of the training time; here 40 %, for 1 of 2 models"
    )


@pytest.mark.parametrize(("repeats", "noise"), [(3, 0.0), (3, 3.0), (2, 0.0)])
def test_an_all_reduce_is_compared_by_intervals_of_three_launches(repeats, noise):
    calibration = make_calibration.calibration(repeats=repeats, noise=noise)
    figure = drawn({ALL_REDUCES: all_reduce_times([calibration])}, "all-reduce")
    seen = figure.data[figure.data["role"] == "observed"]
    seen = seen[seen["payload_bytes"] == seen["payload_bytes"].max()].set_index("nodes")["seconds"]
    if repeats < evidence.LAUNCHES:
        assert figure.finding.endswith(f" takes {write_number(seen[8], 's')} on 8 nodes")
    elif noise:
        assert figure.finding.endswith(" takes not clearly longer on 8 nodes than on 2")
    else:
        ratio = times(seen[8] / seen[2])
        assert figure.finding.endswith(f" takes {ratio} as long on 8 nodes as on 2")


def test_models_are_compared_by_what_they_compute_for_a_byte():
    rows = {"model": ["A", "B", "C"], "payload_bytes": [10.0, 10.0, 1.0]}
    rows |= {"training_flops": [20.0, 400.0, 30.0], "flops_per_byte": [2.0, 40.0, 30.0]}
    models = pd.DataFrame(rows).assign(kind="counted")
    models = models[["model", "kind", "payload_bytes", "training_flops", "flops_per_byte"]]
    said = "B computes 20 times as much per byte sent as A"
    assert drawn({MODELS: models}, "compute-to-communication").finding == said
    said = "A computes 2.00 FLOP for each byte that it sends"
    assert drawn({MODELS: models[:1]}, "compute-to-communication").finding == said


def test_every_figure_has_a_finding_to_tell(fitted, tables):
    """Figures that are excluded here are drawn by other tests of this file, from other tables."""
    others = {"accuracy", "ways", "ways-parts", "all-reduce"}
    others |= {"loss-by-epoch", "accuracy-by-epoch", "compute-to-communication"}
    assert set(FIGURES) - others <= {*findings(fitted), *findings(tables)}


def test_a_finding_is_the_title_and_what_is_plotted_the_subtitle(tables):
    (figure,) = [one for one in draw_figures(tables, {}, {}) if one.figure == "speedup"]
    title = figure.spec()["title"]
    assert title["text"] == figure.finding
    assert title["subtitle"].startswith("Speed-up by nodes · measured")


def test_an_experiment_is_told_by_its_title_and_found_by_its_name(tables):
    (name,) = tables["curves"]["experiment"].unique()
    drawn = {one.figure: one for one in draw_figures(tables, {name: "Steps by nodes"}, {})}
    split = drawn["split"]
    assert split.where == ["Steps by nodes", "MultiWorkerMirroredStrategy"]
    assert "Steps by nodes" in split.spec()["title"]["subtitle"]
    assert split.of["experiment"] == name
    assert set(drawn["time"].data["experiment"]) <= {"Steps by nodes", ""}
    (unknown,) = [one for one in draw_figures(tables, {}, {}) if one.figure == "split"]
    assert unknown.where[0] == name
