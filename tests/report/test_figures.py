"""The figures: what they draw, and what their titles, legends and texts say."""

import itertools
import json
from pathlib import Path

import altair as alt
import pandas as pd
import pytest
import vl_convert

import make_architectures
import make_calibration
import make_records as make
from nodewise.predict.study import read_overhead
from nodewise.report import evidence, theme
from nodewise.report.figure import NOT_FROM_ZERO, VEGA_LITE
from nodewise.report.figures import ALL_REDUCES, FIGURES, MODELS, draw_figures
from nodewise.report.figures._panels import MOST_LINES
from nodewise.report.figures.calibration import all_reduce_times
from nodewise.report.figures.models import sizes
from nodewise.report.titles import named_variants
from nodewise.results import published
from nodewise.results.columns import OVERHEAD
from nodewise.results.table_files import typed
from nodewise.results.tables import build_tables
from nodewise.strategies import STRATEGIES
from nodewise.study.config import read_config
from rendering import draw_all

PUBLISHED = Path("config/published.yaml")


def figures(tables, overhead):
    return list(draw_figures(tables | overhead, {}, {}))


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    tables = make.write_study(folder, make.grid(), make.published())
    draw_all(folder)
    return folder, tables, read_overhead(folder / "overhead")


@pytest.fixture(scope="module")
def drawn(study):
    return {figure.name: figure for figure in figures(*study[1:])}


def figure_of(drawn, figure, **of):
    (found,) = [f for f in drawn.values() if f.figure == figure and of.items() <= f.of.items()]
    return found


def test_the_files_of_a_figure_are_valid_whole_and_have_its_rows_and_its_kinds(study, drawn, capfd):
    folder = study[0] / "charts"
    for name, figure in drawn.items():
        spec = json.loads((folder / f"{name}.vl.json").read_text())
        said = spec["title"]["subtitle"].split(" · ")
        assert figure.kinds and set(figure.kinds) <= set(said)
        assert figure.title and figure.alt and "tooltip" in json.dumps(spec)
        vl_convert.vegalite_to_vega(
            figure.spec() | {"width": 300}, vl_version=VEGA_LITE, show_warnings=True
        )
        del spec["config"]  # It has settings that Vega knows but that are not in the schema.
        alt.Chart.from_dict(spec, validate=True)
        svg = (folder / f"{name}.svg").read_text()
        assert svg.startswith("<svg") and svg.rstrip().endswith("</svg>")
        assert figure.title in svg and svg.count("<path") > 10
        table = pd.read_csv(folder / f"{name}.csv")
        assert len(table) == len(figure.data) and list(table) == list(figure.data)
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


def test_figures_of_cells_that_are_gone_are_removed(tmp_path):
    make.write_study(tmp_path, [make.record(make.cell(n=n)) for n in (1, 2)])
    assert draw_all(tmp_path)
    make.write_study(tmp_path, [])
    assert draw_all(tmp_path) == []
    names = {path.name for path in (tmp_path / "charts").iterdir()}
    assert names == {"vega.js", "themes.js", ".nodewise"}


def test_points_that_do_not_count_as_evidence_give_no_finding_of_ours(study):
    curves = study[1]["curves"].assign(repeats=evidence.LAUNCHES - 1)
    of_curves = {"time", "speedup", "efficiency", "batches", "split"}
    drawn = [one for one in figures(study[1] | {"curves": curves}, {}) if one.figure in of_curves]
    assert drawn
    assert all(one.finding.startswith("Published: ") for one in drawn if one.finding)


def rows_of(spec):
    """Return the rows that each layer of a specification draws."""
    return [spec["datasets"][layer["data"]["name"]] for layer in spec["layer"]]


@pytest.fixture(scope="module")
def published_tables():
    """Return the tables of the committed records, as for the published site."""
    study = read_config(PUBLISHED)
    return build_tables(
        study.record_files(Path("nowhere")),
        published.points(),
        watts_per_core=study.watts_per_core,
        published_runs=published.runs(),
    )


@pytest.fixture(scope="module")
def published_specs(published_tables):
    """Return the specifications of the charts of the committed records."""
    variants = named_variants(read_config(PUBLISHED))
    return [figure.spec() for figure in draw_figures(published_tables, {}, variants)]


@pytest.fixture(scope="module")
def crowded_specs(tmp_path_factory):
    """Return specifications of many lines: twelve strategies, two batches, two and four nodes."""
    cells = [
        make.cell(n=n, batch=batch, strategy="custom_loop", variant=f"v{i:02}", extent=make.EPOCHS)
        for i, n, batch in itertools.product(range(12), (2, 4), (64, 128))
    ]
    paths = make.write([make.record(cell) for cell in cells], tmp_path_factory.mktemp("crowded"))
    return [figure.spec() for figure in draw_figures(build_tables(paths, None), {}, {})]


MANY = [8, 16, 32, 64, 128, 256, 512, 1024]


@pytest.fixture(scope="module")
def many_specs(tmp_path_factory):
    """Return specifications with more batches, node counts, links and payloads than fit a plot."""
    cells = [make.cell(batch=batch, n=n) for batch in MANY for n in (1, 2, 3)]
    cells += [make.cell(experiment="wide", batch=b, n=n) for b in (32, 64) for n in range(1, 10)]
    records = [make.record(cell) for cell in cells]
    records += [emulated(100 * rate, n, f"link_{rate}") for rate in range(1, 9) for n in (1, 2, 3)]
    folder = tmp_path_factory.mktemp("many")
    tables = make.write_study(folder, records, make.published())
    payloads = tuple(4 * 10**power for power in range(8))
    tables[ALL_REDUCES] = all_reduce_times([make_calibration.calibration(payloads=payloads)])
    tables[MODELS] = sizes({"fashion_cnn": make_architectures.fashion_cnn()})
    return [one.spec() for one in figures(tables, read_overhead(folder / "overhead"))]


@pytest.fixture(scope="module")
def all_specs(published_specs, crowded_specs, many_specs):
    """Return all these specifications: every figure is among them, with few and with many lines."""
    return [*published_specs, *crowded_specs, *many_specs]


def test_what_holds_for_all_charts_is_tested_of_every_figure(all_specs):
    assert {spec["usermeta"]["figure"] for spec in all_specs} == set(FIGURES)


def quantities(spec):
    """Return the numeric axes of a chart: axis -> its titles, joined, and its scales."""
    found = {}
    for axis in ("x", "y"):
        channels = [layer["encoding"].get(axis, {}) for layer in spec["layer"]]
        channels = [one for one in channels if one.get("type") == "quantitative"]
        if channels:
            titles = " ".join(str(one["title"]) for one in channels if one.get("title"))
            found[axis] = titles, [one.get("scale") or {} for one in channels]
    return found


def test_axes_of_values_begin_at_zero_or_say_where_not_and_logarithmic_ones_say_so(all_specs):
    said = set()
    for spec in all_specs:
        for axis, (titles, scales) in quantities(spec).items():
            logarithmic = any(scale.get("type") == "log" for scale in scales)
            assert logarithmic == ("log scale" in titles), spec["title"]
            if logarithmic or axis != spec["usermeta"]["axis"]:
                continue
            # Axes that panels share have explicit ends.
            starts = {scale["domainMin"] for scale in scales if "domainMin" in scale}
            elsewhere = any(scale.get("zero") is False for scale in scales) and starts != {0}
            said.add(elsewhere)
            assert elsewhere == (NOT_FROM_ZERO in titles), spec["title"]
            assert elsewhere or max(starts, default=0) <= 0, spec["title"]
    assert said == {True, False}


ENDS = [
    *[("low", "high"), ("low_s", "high_s"), ("efficiency_low", "efficiency_high")],
    ("least", "most"),
]
# Other charts draw values that are derived from a step time.
OF_BARS = ("step_time_low_s", "step_time_high_s")


def test_intervals_that_a_chart_has_are_drawn(all_specs):
    drawn = set()
    for spec in all_specs:
        rows = [row for data in spec["datasets"].values() for row in data]
        stacked = any("part" in row for row in rows)
        known = {
            (low, high)
            for low, high in [*ENDS, *([OF_BARS] if stacked else [])]
            if any(
                None not in (row.get(low), row.get(high)) and row[low] < row[high] for row in rows
            )
        }
        axis = spec["usermeta"]["axis"]
        of = [layer["encoding"] for layer in spec["layer"]]
        between = {
            (one[axis].get("field"), one[f"{axis}2"]["field"]) for one in of if f"{axis}2" in one
        }
        assert not known or known & between, spec["title"]
        drawn |= {spec["usermeta"]["figure"]} if known else set()
    assert {"time", "speedup", "efficiency", "batches", "ways", "fit", "reach"} <= drawn
    assert {"accuracy", "loss-by-epoch", "accuracy-by-epoch", "split", "ways-parts"} <= drawn


def mark_of(layer):
    mark = layer["mark"]
    return mark if isinstance(mark, str) else mark["type"]


def telling(encoding):
    """Return the columns that distinguish the lines of a layer."""
    looks = [encoding[name] for name in ("color", "strokeDash") if name in encoding]
    detail = encoding.get("detail", [])
    looks += detail if isinstance(detail, list) else [detail]
    return {look["field"] for look in looks if "field" in look}


def lines_of(spec):
    """Yield the rows of each line of a chart."""
    for layer in spec["layer"]:
        if mark_of(layer) == "line":
            data = layer.get("data", spec.get("data"))["name"]
            rows, fields = pd.DataFrame(spec["datasets"][data]), telling(layer["encoding"])
            yield from (part for _, part in rows.groupby([*fields])) if fields else [rows]


def machines_of(line, tables):
    """Return the machines that measured the points of a line."""
    cells = tables["cells"].set_index("cell_id")["machine"]
    return {cells[cell] for cell in line.get("cell_id", ()) if cell}


def most_lines(spec):
    """Return the largest number of lines that a layer draws in one panel.

    Parts of one line count once: where its formula is fitted and where it is extrapolated, and
    where its link was measured and where not.
    """
    found = [0]
    for layer in spec["layer"]:
        if mark_of(layer) != "line":
            continue
        encoding, data = layer["encoding"], layer.get("data", spec.get("data"))["name"]
        rows = pd.DataFrame(spec["datasets"][data])
        fields = telling(encoding) - {"role", "stretch"}
        axes = [encoding[axis] for axis in ("x", "y")]
        places = {axis["field"] for axis in axes if axis["type"] in ("nominal", "ordinal")}
        lines = rows[[*(fields | places)]].drop_duplicates() if fields else rows[:1]
        found.append(lines.groupby([*places]).size().max() if places else len(lines))
    return max(found)


@pytest.mark.parametrize("which", ["published_specs", "crowded_specs", "many_specs"])
def test_no_plot_has_more_than_six_lines(which, request):
    most = [(most_lines(one), one["title"]) for one in request.getfixturevalue(which)]
    assert [plot for plot in most if plot[0] > MOST_LINES] == []
    assert any(lines > 1 for lines, _ in most)


def test_no_line_of_the_published_charts_is_of_two_machines(published_tables, published_specs):
    lines = [line for spec in published_specs for line in lines_of(spec)]
    machines = [machines_of(line, published_tables) for line in lines]
    assert len(set().union(*machines)) > 1
    assert [of for of in machines if len(of) > 1] == []


@pytest.mark.parametrize("extent", [make.STEPS, make.EPOCHS], ids=["steps", "epochs"])
def test_points_of_two_machines_are_not_joined(tmp_path, extent):
    records = [make.record(make.cell(n=n, extent=extent)) for n in (1, 2, 3, 4)]
    elsewhere = {"provenance": records[0].provenance.model_copy(update={"cpu": "Another CPU"})}
    records[2:] = [one.model_copy(update=elsewhere) for one in records[2:]]
    tables = build_tables(make.write(records, tmp_path), None)
    lines = [line for one in draw_figures(tables, {}, {}) for line in lines_of(one.spec())]
    machines = [machines_of(line, tables) for line in lines]
    assert set().union(*machines) == {"Synthetic CPU", "Another CPU"}
    assert max(map(len, machines)) == 1


def emulated(rate, nodes, experiment):
    """Return a record of a cell on an emulated cluster with a link of `rate` Mbit/s."""
    cluster = {"kind": "emulated", "node": {"cpu": 0.2}, "link": {"rate_mbit": rate}}
    cell = make.cell(experiment=experiment, n=nodes, cluster=cluster, batch=512)
    return make.record(cell).model_copy(update={"kind": "emulated"})


def test_a_point_is_hollow_in_every_chart_or_in_none(study, drawn):
    curves = study[1]["curves"].set_index("cell_id")["flags"]
    assert (curves != "").any()
    for name in ("time", "fit", "reach", "speedup"):
        figures = [one for one in drawn.values() if one.figure == name]
        points = pd.concat([one.data for one in figures]).query("cell_id != ''")
        assert points["flags"].tolist() == curves[points["cell_id"]].tolist(), name


def test_a_generated_stand_in_shows_in_legend_and_words(tmp_path):
    records = [make.record(make.cell(n=n), origin="generated") for n in (1, 2)]
    tables = build_tables(make.write(records, tmp_path), None)
    overhead = {name: typed((), columns) for name, columns in OVERHEAD.items()}
    for figure in figures(tables, overhead):
        assert all("generated data" in kind for kind in figure.kinds)
        assert "generated data" in figure.alt


def test_names_of_figures_are_plain_whatever_the_tables_say(study):
    _, tables, overhead = study
    odd = {
        name: table.assign(model="../<script>alert(1)</script>") if "model" in table else table
        for name, table in tables.items()
    }
    for figure in figures(odd, overhead):
        assert set(figure.name) <= set("abcdefghijklmnopqrstuvwxyz0123456789_-")


def test_every_measured_point_knows_a_cell_of_its_own(study, drawn):
    _, tables, _ = study
    cells = tables["cells"].set_index("cell_id")
    for figure in drawn.values():
        published = "published" in figure.kinds[0]
        of_cells = figure.data[figure.data["cell_id"] != ""]
        assert len(of_cells) > 0 or published, figure.name
        if "nodes" in figure.data:
            its = cells.loc[of_cells["cell_id"]]
            assert its["nodes"].tolist() == of_cells["nodes"].tolist()
            if len(its):
                batches = "batch_per_worker" if "batch_per_worker" in of_cells else "batch"
                known = its["batch_per_worker"].astype(str).tolist()
                assert known == of_cells[batches].astype(str).tolist()
            assert (its["status"] == "ok").all()
    data = figure_of(drawn, "time").data
    assert ((data["cell_id"] == "") == (data["kind"] == "published")).all()
    fit = figure_of(drawn, "fit", experiment="ntua_steps").data
    assert ((fit["cell_id"] != "") == fit["observed_s"].notna()).all()


def test_speed_up_in_training_time_is_against_one_node(drawn):
    rows = figure_of(drawn, "time").data
    assert rows.loc[rows["nodes"] == 1, "speedup"].tolist() == pytest.approx(
        [1] * (rows["nodes"] == 1).sum()
    )
    theirs = rows.query("kind == 'published' and batch_per_worker == 512").set_index("nodes")
    assert theirs["speedup"][3] == pytest.approx(theirs["seconds"][1] / theirs["seconds"][3])


def test_the_ideal_of_every_batch_starts_at_its_own_point(drawn):
    figure = figure_of(drawn, "speedup", experiment="ntua_steps")
    guide = pd.DataFrame(rows_of(figure.spec())[0]).set_index(["batch_per_worker", "nodes"])
    ours = figure.data.set_index(["batch_per_worker", "nodes"])
    for batch in ours.index.unique("batch_per_worker"):
        one = ours.loc[(batch, 1), "examples_per_s"]
        assert guide.loc[(batch, 1), "examples_per_s"] == pytest.approx(one, rel=1e-4)
        assert guide.loc[(batch, 3), "examples_per_s"] == pytest.approx(3 * one, rel=1e-4)
        assert guide.loc[(batch, 3), "speedup"] == 3


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
    marks += [shade for shades in theme.STRATEGY_COLOURS.values() for shade in shades]
    marks += theme.strategy_shades("a plug-in's own", 3)
    marks += theme.batch_colours(range(1, 2049)) + theme.node_colours(range(1, 257))
    for dark, pages in ((False, ("#fbfaf8", "#ffffff")), (True, ("#14181f", "#1b2028"))):
        config = theme.vega_config(dark=dark)
        texts = [config[part]["labelColor"] for part in ("axis", "legend")]
        texts += [config["title"]["color"], config["title"]["subtitleColor"]]
        for page in pages:
            assert all(contrast(mark, page) >= 3 for mark in marks)
            assert all(contrast(text, page) >= 4.5 for text in texts)
    first_shades = [theme.strategy_shades(name)[0] for name in STRATEGIES]
    assert len(set(first_shades)) == len(STRATEGIES)


def colours_of(specs, field):
    """Return the colours in which charts draw each value of `field`: value -> colours."""
    found = {}
    for spec in specs:
        for layer in spec["layer"]:
            colour = layer["encoding"].get("color", {})
            if colour.get("field") == field:
                scale = colour["scale"]
                for value, drawn_in in zip(scale["domain"], scale["range"], strict=True):
                    found.setdefault(value, set()).add(drawn_in)
    return found


@pytest.mark.parametrize("field", ["batch_per_worker", "nodes", "part"])
def test_a_batch_a_number_of_nodes_and_a_part_have_one_colour_in_all_charts(all_specs, field):
    colours = colours_of(all_specs, field)
    assert len(colours) > 1 and all(len(each) == 1 for each in colours.values())
