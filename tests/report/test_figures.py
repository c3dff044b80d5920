"""The figures: what they draw, and what their titles, legends and texts say."""

import itertools
import json
from dataclasses import replace
from pathlib import Path

import altair as alt
import pandas as pd
import pytest
import vl_convert

import make_records as make
from nodewise.core.units import write_number
from nodewise.report import theme
from nodewise.report.charts import Chart
from nodewise.report.context import ReportContext, read_context
from nodewise.report.drawing import MOST_LINES, NOT_FROM_ZERO, VEGA_LITE
from nodewise.report.figure import Axis, Figure
from nodewise.report.figures import FIGURES
from nodewise.results.columns import FIT_COLUMNS
from nodewise.results.table_files import typed
from rendering import CONFIG


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> ReportContext:
    folder = tmp_path_factory.mktemp("study")
    make.write_study(folder, make.grid(repeats=3), make.published())
    return read_context(CONFIG, folder)


@pytest.fixture(scope="module")
def drawn(study) -> list[Chart]:
    return study.pick(*FIGURES)


def crowded(folder: Path) -> ReportContext:
    """Return a study of more lines than fit a plot: strategies, batches and nodes."""
    about = {"strategy": ("custom_loop",), "extent": (make.EPOCHS,)}
    records = make.launches(variant=["loop", *(f"v{n:02}" for n in range(6))], n=(2, 4), **about)
    many = [2**power for power in range(3, 11)]
    records += make.launches(1, experiment=("many",), batch=many, n=(1, 2, 3))
    make.write_study(folder, records, make.published())
    return read_context(CONFIG, folder)


@pytest.fixture(scope="module")
def every(drawn, tmp_path_factory) -> list[Chart]:
    """Return charts of every figure, with few and with many lines."""
    return [*drawn, *crowded(tmp_path_factory.mktemp("crowded")).pick(*FIGURES)]


def chart_of(drawn, figure, **of):
    (found,) = [one for one in drawn if one.figure == figure and of.items() <= one.of.items()]
    return found


def layers_of(chart):
    return chart.spec.get("spec", chart.spec)["layer"]


def test_every_figure_is_tested(every):
    assert {chart.figure for chart in every} == set(FIGURES)
    assert not any(chart.titled.isin(["Custom training loop ()"]).any(axis=None) for chart in every)


def test_the_files_of_a_chart_are_valid_whole_and_have_its_rows_and_its_kinds(drawn, capfd):
    for chart in drawn:
        files = chart.files()
        spec = json.loads(files[f"{chart.name}.vl.json"])
        said = {*spec["title"]["subtitle"].split(" · ")}
        assert chart.kinds and {*chart.kinds} <= said
        assert "model" not in chart.of or chart.titled["model"].iloc[0] in said
        batches = {*chart.titled.get("batch_per_worker", ())}
        assert len(batches) != 1 or f"batch {batches.pop():g}" in said
        assert chart.alt and "tooltip" in json.dumps(spec) and "On devices" not in json.dumps(spec)
        wide = spec if "facet" in spec else spec | {"width": 300}
        vl_convert.vegalite_to_vega(wide, vl_version=VEGA_LITE, show_warnings=True)
        assert alt.SCHEMA_URL.startswith(spec["$schema"].removesuffix(".json"))
        del spec["config"]  # It has settings that Vega knows but that are not in the schema.
        alt.Chart.from_dict(spec, validate=True)
        svg = files[f"{chart.name}.svg"]
        assert svg.startswith("<svg") and svg.rstrip().endswith("</svg>") and svg.count("<path") > 4
        (wide, high), (narrow, _) = chart.sizes
        assert 600 < wide <= 725 and high > 100 and narrow < 360
    assert capfd.readouterr() == ("", "")


# --- titles ---

POINTS = pd.DataFrame(
    {
        "kind": "measured",
        "nodes": [1, 2, 4, 4, 8],
        "batch_per_worker": [64, 64, 64, 128, 128],
        "speedup": [1.0, 1.5, 2.0, 3.0, 7.0],
        "flags": "",
        "repeats": 3,
        "lacks": ["", "", "", "", "launches"],
        "cell_id": "",
    }
)
FIGURE = Figure(
    "speeds",
    lambda _: POINTS,
    each=["kind"],
    plots="Speed-up by nodes",
    x=Axis("nodes", "Nodes"),
    y=Axis("speedup", "Speed-up", unit="×"),
    colour="batch_per_worker",
    title=[
        "{nodes} nodes: {speedup} at batch {batch_per_worker}, {speedup_first} at "
        "{batch_per_worker_first}",
        "{nodes} nodes: {speedup}",
    ],
)


def one_chart(rows=POINTS, figure=FIGURE):
    return Chart(figure, "speeds", {}, rows, rows)


def test_a_title_tells_the_last_point_that_counts_and_the_first_one_beside_it():
    plain = one_chart().finding.replace("\u00a0", " ")
    assert plain == "4 nodes: 3.00× at batch 128, 2.00× at 64"
    alone = POINTS[POINTS["batch_per_worker"] == 64]
    assert one_chart(alone).finding == "4 nodes: 2.00×"
    told = replace(FIGURE, told="nodes < 4")
    assert one_chart(figure=told).finding == "2 nodes: 1.50×"


def test_without_evidence_the_title_is_what_is_plotted():
    chart = one_chart(POINTS.assign(lacks="launches"))
    assert chart.finding == ""
    assert chart.spec["title"] == {"text": "Speed-up by nodes", "subtitle": "measured"}


# --- axes, intervals, looks ---


def test_axes_of_values_begin_at_zero_or_say_where_not_and_logarithmic_ones_say_so(every):
    said = set()
    for chart in every:
        along = "x" if chart.declared.y.scale == "names" else "y"
        for layer, channel in itertools.product(layers_of(chart), ("x", "y")):
            axis = layer["encoding"].get(channel, {})
            if "scale" in axis:  # other layers share it
                logarithmic = axis["scale"].get("type") == "log"
                assert logarithmic == ("log scale" in axis["title"]), chart.name
                if channel == along and not logarithmic:
                    said.add(axis["scale"]["zero"])
                    assert axis["scale"]["zero"] == (NOT_FROM_ZERO not in axis["title"]), chart.name
    assert said == {True, False}


def test_numbers_have_no_exponent_in_tooltips_and_no_prefix_below_one_at_axes():
    figure = replace(FIGURE, y=Axis("speedup", "Examples per second", unit="/s"))
    chart = one_chart(POINTS.assign(speedup=POINTS["speedup"] / 8), figure)
    assert ">0.2<" in chart.svg
    told = layers_of(chart)[-1]["encoding"]["tooltip"]
    text = {"text": next(one for one in told if one["field"] == "speedup")}
    spec = {"data": {"values": [{"speedup": 45_322}]}, "mark": "text", "encoding": text}
    assert ">45,322<" in vl_convert.vegalite_to_svg(spec, vl_version=VEGA_LITE)


def test_an_axis_of_accuracies_spans_all_values_and_at_least_a_twentieth(every):
    charts = [one for one in every if one.declared.y.scale == "accuracy"]
    assert charts
    for chart in charts:
        axes = [layer["encoding"]["y"] for layer in layers_of(chart)]
        low, high = next(axis["scale"]["domain"] for axis in axes if "scale" in axis)
        assert high - low >= 0.05 - 1e-9 and high <= 1
        assert low <= chart.data["accuracy"].min() and chart.data["accuracy"].max() <= high


def test_intervals_that_a_chart_has_are_drawn(every):
    drawn = set()
    for chart in every:
        interval = chart.declared.interval
        if interval and chart.data[interval[0]].notna().any():
            ends = [layer["encoding"] for layer in layers_of(chart)]
            fields = {one.get(f"{channel}2", {}).get("field") for one in ends for channel in "xy"}
            assert interval[1] in fields, chart.name
            assert chart.declared.interval_is in chart.caption
            drawn.add(chart.figure)
    assert {"time", "speedup", "strategies", "fit", "parts"} <= drawn


def test_a_point_with_a_caution_is_hollow_and_one_launched_once_is_pale():
    rows = POINTS.assign(flags=["", "noisy", "", "", ""], repeats=[3, 3, 1, 3, 3])
    point = next(one for one in layers_of(one_chart(rows)) if one["mark"]["type"] == "point")
    looks = {one["test"]: one["value"] for one in point["encoding"]["fillOpacity"]["condition"]}
    assert looks["datum.flags"] == 0 < looks["datum.repeats == 1"] < 1
    assert "caution" in one_chart(rows).caption and "launched once" in one_chart(rows).caption
    assert "caution" not in one_chart().caption and "once" not in one_chart().caption


def test_a_point_is_hollow_in_every_chart_or_in_none(study, drawn):
    curves = study.tables["curves"].set_index("cell_id")["flags"]
    assert (curves != "").any()
    for name in ("time", "fit", "speedup"):
        points = pd.concat([one.data for one in drawn if one.figure == name])
        points = points.query("cell_id != ''")
        assert points["flags"].tolist() == curves[points["cell_id"]].tolist(), name


def test_the_parts_of_a_step_are_together_as_long_as_the_median_step(every):
    charts = [one for one in every if one.figure == "parts"]
    bars = ["batch_per_worker", "bar"]
    for chart in charts:
        whole = chart.data.groupby(bars)["seconds"].sum()
        step = chart.data.groupby(bars)["step_time_s"].first()
        assert whole.tolist() == pytest.approx(step.tolist()), chart.name
    assert charts


def test_a_title_compares_the_parts_of_strategies_at_one_batch_and_no_devices(tmp_path):
    about = {"strategy": ("custom_loop", "mpi", "horovod", "mirrored"), "batch": (64, 512)}
    make.write_study(tmp_path, make.launches(n=(1, 2), **about))
    study = read_context(CONFIG, tmp_path)
    curves = study.tables["curves"]
    curves["compute_s"] *= curves["strategy"].map({"mpi": 2, "mirrored": 9}).fillna(1)
    (chart,) = study.pick("parts")
    rows = chart.data.query("part == 'compute' and batch_per_worker == 512 and not on_devices")
    assert {*chart.data["strategy"]} == {*about["strategy"]} > {*rows["strategy"]}
    assert study.pick("parts", line="mpi") == [chart] and not study.pick("parts", line="single")
    assert chart.finding.startswith("On 2 nodes at batch 512, ")
    for share in (rows["share"].min(), rows["share"].max()):
        assert write_number(share, "share") in chart.finding.replace("\u00a0", " ")


# --- lines, panels, colours ---


def lines_of(chart):
    """Yield the rows of each line of a chart."""
    rows = pd.DataFrame(chart.spec["data"]["values"])
    for layer in layers_of(chart):
        encoding = layer["encoding"]
        if layer["mark"]["type"] != "line" or "data" in layer:
            continue
        looks = [encoding[name] for name in ("color", "strokeDash") if name in encoding]
        looks += encoding.get("detail", [])
        fields = {look["field"] for look in looks if "field" in look}
        fields -= {"role", "kind"} if "role" in rows else set()
        fields |= {"panel"} & {*rows}
        yield from (part for _, part in rows.groupby([*fields])) if fields else [rows]


def test_no_plot_has_more_than_six_lines(every):
    most = {}
    for chart in every:
        lines = pd.Series([line.get("panel", pd.Series([""])).iloc[0] for line in lines_of(chart)])
        most[chart.name] = max(lines.value_counts(), default=0)
    assert {name: lines for name, lines in most.items() if lines > MOST_LINES} == {}
    assert any(lines > 1 for lines in most.values())


def test_colours_that_are_too_many_become_panels_and_each_is_named():
    rows = pd.concat([POINTS.assign(batch_per_worker=2**power) for power in range(9)])
    spec = one_chart(rows).spec
    assert spec["facet"]["sort"] == [f"Batch per worker {2**power:,}" for power in range(9)]
    assert spec["usermeta"]["panels"] == 9 and "facet" not in one_chart().spec


@pytest.mark.parametrize("extent", [make.STEPS, make.EPOCHS], ids=["steps", "epochs"])
def test_points_of_two_machines_are_not_joined(study, tmp_path, extent):
    cpus = ("Synthetic CPU", "Synthetic CPU", "Another CPU", "Another CPU")
    records = [make.record(make.cell(n=n, extent=extent), cpu=cpu) for n, cpu in enumerate(cpus, 1)]
    tables = make.tables_of(records, tmp_path)
    ours = replace(study, tables=tables, records={one.cell.id: one for one in records})
    charts = ours.pick("time", "speedup", "accuracy")
    machine_of = tables["cells"].set_index("cell_id")["machine"]
    lines = [line for chart in charts for line in lines_of(chart)]
    machines = [{machine_of[cell] for cell in line.get("cell_id", ()) if cell} for line in lines]
    assert set().union(*machines) == set(cpus)
    assert max(map(len, machines)) == 1


def contrast(one, other):
    """Return the WCAG contrast ratio of two colours."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_marks_and_texts_stand_out_from_the_light_and_the_dark_page():
    marks = [*theme.KIND_COLOURS.values(), *theme.PART_COLOURS.values(), theme.NEUTRAL]
    marks += theme.colours("strategy", [f"name {i}" for i in range(MOST_LINES)])
    marks += theme.colours("batch_per_worker", range(1, 2049))
    marks += theme.colours("nodes", range(1, 257))
    for dark, pages in ((False, ("#fbfaf8", "#ffffff")), (True, ("#14181f", "#1b2028"))):
        config = theme.vega_config(dark=dark)
        texts = [config[part]["labelColor"] for part in ("axis", "legend", "header")]
        texts += [config["title"]["color"], config["title"]["subtitleColor"]]
        for page in pages:
            assert all(contrast(mark, page) >= 3 for mark in marks)
            assert all(contrast(text, page) >= 4.5 for text in texts)


def colours_in(charts, field):
    """Return the colours in which charts draw each value of `field`: value -> colours."""
    found = {}
    for layer in (layer for chart in charts for layer in layers_of(chart)):
        colour = layer["encoding"].get("color", {})
        if colour.get("field") == field:
            scale = colour["scale"]
            for value, drawn_in in zip(scale["domain"], scale["range"], strict=True):
                found.setdefault(value, set()).add(drawn_in)
    return found


@pytest.mark.parametrize("field", ["batch_per_worker", "nodes", "part"])
def test_a_batch_a_number_of_nodes_and_a_part_have_one_colour_in_all_charts(every, field):
    colours = colours_in(every, field)
    assert len(colours) > 1 and all(len(each) == 1 for each in colours.values())


def test_what_was_published_has_a_hue_of_its_own(every):
    colours = colours_in([one for one in every if one.figure in ("time", "accuracy")], "series")
    assert colours.pop("published") == {theme.KIND_COLOURS["published"]}
    assert theme.KIND_COLOURS["published"] not in set().union(*colours.values())


def test_no_chart_relies_on_colour_alone(every):
    for chart in every:
        for layer in layers_of(chart):
            encoding = layer["encoding"]
            if layer["mark"]["type"] == "point" and "field" in encoding["color"]:
                assert encoding["shape"]["field"] == encoding["color"]["field"]
                shapes = encoding["shape"]["scale"]["range"][:MOST_LINES]
                assert len(set(shapes)) == len(shapes)


# --- rows ---


def test_generated_data_shows_in_kinds_and_words(study, tmp_path):
    records = [make.record(make.cell(n=n), origin="generated") for n in (1, 2)]
    tables = make.tables_of(records, tmp_path)
    empty = {name: typed((), columns) for name, columns in FIT_COLUMNS.items()}
    poor = replace(study, tables=tables, fit_tables=empty, records={r.cell.id: r for r in records})
    charts = poor.pick("time", "speedup", "accuracy", "parts")
    assert charts
    for chart in charts:
        assert all("generated data" in kind for kind in chart.kinds)


def test_names_of_charts_are_plain_whatever_the_tables_say(study):
    odd = {
        name: table.assign(model="../<script>alert(1)</script>") if "model" in table else table
        for name, table in study.tables.items()
    }
    for chart in replace(study, tables=odd).pick(*FIGURES):
        assert set(chart.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")


def test_every_measured_point_knows_a_cell_of_its_own(study, drawn):
    cells = study.tables["cells"].set_index("cell_id")
    for chart in drawn:
        if "cell_id" not in chart.data or "nodes" not in chart.data:
            continue
        points = chart.data[chart.data["cell_id"] != ""]
        its = cells.loc[points["cell_id"]]
        assert its["nodes"].tolist() == points["nodes"].tolist(), chart.name
        if "batch_per_worker" in points:
            assert its["batch_per_worker"].tolist() == points["batch_per_worker"].tolist()
        assert (its["status"] == "ok").all()
    data = chart_of(drawn, "time").data
    assert ((data["cell_id"] == "") == (data["kind"] == "published")).all()


def test_speed_up_in_training_time_is_against_one_node(drawn):
    rows = chart_of(drawn, "time").data
    assert set(rows.loc[rows["nodes"] == 1, "speedup"].round(9)) == {1}
    theirs = rows.query("kind == 'published' and batch_per_worker == 512").set_index("nodes")
    assert theirs["speedup"][3] == pytest.approx(theirs["seconds"][1] / theirs["seconds"][3])
    assert theirs["printed_one"][3] == theirs["seconds"][1]


def test_a_fit_shows_points_and_the_formula_against_one_node_of_the_formula(study, drawn):
    chart = chart_of(drawn, "fit", experiment="ntua_steps")
    rows, fits = chart.data, study.fit_tables["predictions"]
    own = fits[fits["curve"] == chart.of["curve"]]
    one = own[own["nodes"] == 1].set_index("batch_per_worker")["fitted_s"]
    seen = rows[rows["role"] == "observed"]
    assert len(seen) == own["observed_s"].notna().sum()
    expected = seen["nodes"] * seen["batch_per_worker"].map(one) / seen["seconds"]
    assert seen["speedup"].tolist() == pytest.approx(expected.tolist())
    assert set(rows["role"]) == {"observed", "fitted", "predicted"}
