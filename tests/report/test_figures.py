"""The figures: what they draw, and what their titles, legends and texts say."""

import itertools
import json
import re
from io import StringIO
from pathlib import Path

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert

import make_architectures
import make_calibration
import make_records as make
from nodewise.core.units import KINDS, kind_label
from nodewise.predict.study import read_overhead
from nodewise.report import theme
from nodewise.report.figure import NOT_FROM_ZERO, VEGA_LITE
from nodewise.report.figures import ALL_REDUCES, FIGURES, MODELS, draw_figures, sections
from nodewise.report.figures._encodings import TICKS, whole_ticks
from nodewise.report.figures._panels import MOST_LINES, MOST_OF_ONE_COLOUR, panels
from nodewise.report.figures.calibration import all_reduce_times
from nodewise.report.figures.models import sizes
from nodewise.report.titles import Variant, named_variants
from nodewise.results import published
from nodewise.results.columns import COLUMNS, OVERHEAD
from nodewise.results.table_files import typed
from nodewise.results.tables import build_tables
from nodewise.strategies import STRATEGIES
from nodewise.study.config import read_config
from rendering import draw_all

PUBLISHED = Path("config/published.yaml")
MEASURED = "ntua_steps-fashion_cnn-fashion_mnist-multi_worker_mirrored-measured"
LIGHT_PAGE, LIGHT_CARD, DARK_PAGE, DARK_CARD = "#fbfaf8", "#ffffff", "#14181f", "#1b2028"


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


@pytest.mark.timeout(30)
def test_every_specification_is_valid_vega_lite(study):
    paths = sorted((study[0] / "charts").glob("*.vl.json"))
    assert len(paths) > 5
    for path in paths:
        spec = json.loads(path.read_text())
        # It has settings that Vega knows but that are not in Vega-Lite's schema.
        del spec["config"]
        # raises an error if the specification is not valid
        alt.Chart.from_dict(spec, validate=True)


def rows_of(spec):
    """Return the rows that each layer of a specification draws."""
    return [spec["datasets"][layer["data"]["name"]] for layer in spec["layer"]]


@pytest.fixture(scope="module")
def published_tables():
    """Return the tables of the committed records, as for the published site."""
    study = read_config(PUBLISHED)
    return build_tables(
        study.record_files(Path("nowhere")),
        published.ntua(),
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


def scales_of(encoding):
    """Return the scales of those channels that map a list of names to values."""
    scales = (of.get("scale") for of in encoding.values() if isinstance(of, dict))
    return [scale for scale in scales if scale and "range" in scale and "domain" in scale]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("which", ["published_specs", "crowded_specs"])
def test_a_colour_or_shape_stands_for_one_thing(which, request):
    specs = request.getfixturevalue(which)
    assert specs
    for spec in specs:
        for layer in spec["layer"]:
            for scale in scales_of(layer["encoding"]):
                assert len(scale["domain"]) == len(scale["range"]), spec["title"]


LOOKS = ("color", "fill", "shape", "strokeDash")


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


@pytest.mark.timeout(60)
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
    links = published_tables["curve_points"].groupby("curve")["link"].nunique()
    assert links.max() == 1, "a formula is fitted to points of one machine"


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


def test_every_figure_whose_lines_can_be_many_has_panels_for_them(many_specs, crowded_specs):
    parted = {}
    for spec in [*many_specs, *crowded_specs]:
        about = spec["usermeta"]
        if "panel" in about["of"]:
            assert about["of"]["panel"] in spec["title"]["subtitle"]
            of = {axis: name for axis, name in about["of"].items() if axis != "panel"}
            parted.setdefault((about["figure"], str(of)), []).append(spec)
    declared = {name for name in FIGURES if FIGURES[name].lines}
    assert declared - {figure for figure, _ in parted} <= {"accuracy"}
    for (figure, _), panels_of in parted.items():
        assert len(panels_of) > 1, figure
        ends = {ends_of(spec) for spec in panels_of}
        assert len(ends) == 1, figure


@pytest.mark.parametrize("which", ["published_specs", "crowded_specs", "many_specs"])
def test_few_lines_of_one_colour_share_a_plot(which, request):
    for spec in request.getfixturevalue(which):
        if spec["usermeta"]["figure"] in ("time", "accuracy"):
            (shown,) = {len(scale["domain"]) for scale in scales_of(spec["layer"][0]["encoding"])}
            assert shown <= MOST_OF_ONE_COLOUR, spec["title"]


def test_times_of_many_kinds_of_nodes_have_a_panel_for_each(tmp_path):
    rates, experiments = (100, 400), ("steps", "again")
    records = [
        emulated(rate, n, f"{name}_{rate}")
        for rate, name, n in itertools.product(rates, experiments, (1, 2, 3))
    ]
    tables = build_tables(make.write(records, tmp_path), make.published())
    drawn = [one for one in draw_figures(tables, {}, {}) if one.figure == "time"]
    assert [one.of["panel"] for one in drawn] == [f"0.2 core, {rate} Mbit/s" for rate in rates]
    for panel, rate in zip(drawn, rates, strict=True):
        assert set(panel.data["cluster"]) == {f"0.2 core, {rate} Mbit/s", ""}
        assert set(panel.data["kind"]) == {"emulated step time × steps", "published"}
    assert len({panel.ends for panel in drawn}) == 1


def ends_of(spec):
    """Return the ends of the axis that shows the values of a specification."""
    channels = [layer["encoding"].get(spec["usermeta"]["axis"], {}) for layer in spec["layer"]]
    scales = [one["scale"] for one in channels if "field" in one]
    (ends,) = {(scale["domainMin"], scale["domainMax"]) for scale in scales}
    return ends


def test_panels_have_neighbouring_values_and_compare_with_what_is_in_all():
    rows = pd.DataFrame({"nodes": [*range(1, 9)], "line": "ring"})
    assert [name for name, _ in panels(rows, ["nodes"])] == ["1 to 4 nodes", "5 to 8 nodes"]
    assert [name for name, _ in panels(rows[:6], ["nodes"])] == [""]
    ours = pd.DataFrame({"line": [f"way {i}" for i in range(6)]})
    rows = pd.concat([ours, pd.DataFrame({"line": [""]})])
    found = dict(panels(rows, ["line"]))
    assert [*found] == ["1 of 2", "2 of 2"]
    assert all("" in set(part["line"]) for part in found.values())


def test_panels_of_one_value_are_parted_by_the_next_column():
    pairs = itertools.product((32, 64), range(8))
    rows = pd.DataFrame(pairs, columns=["batch_per_worker", "line"]).astype({"line": "str"})
    names = [name for name, _ in panels(rows, ["batch_per_worker", "line"])]
    expected = ["batch 32, 1 of 2", "batch 32, 2 of 2", "batch 64, 1 of 2", "batch 64, 2 of 2"]
    assert names == expected


def test_launches_of_a_training_are_one_line_with_what_lies_between_them(tmp_path):
    cells = [make.cell(n=n, repeat=r, extent=make.EPOCHS) for n in (1, 2) for r in range(3)]
    tables = build_tables(make.write(map(make.record, cells), tmp_path), None)
    (figure,) = [one for one in draw_figures(tables, {}, {}) if one.figure == "loss-by-epoch"]
    assert not figure.data.duplicated(["nodes", "batch_per_worker", "strategy", "epoch"]).any()
    assert (figure.data["least"] <= figure.data["loss"]).all()
    assert (figure.data["loss"] <= figure.data["most"]).all()
    assert figure.spec()["layer"][0]["mark"]["type"] == "area"


def test_pointing_tells_the_title_of_a_strategy_and_not_its_name(published_specs):
    told = set()
    for spec in published_specs:
        for layer in spec["layer"]:
            fields = {tip["field"] for tip in layer["encoding"].get("tooltip", [])}
            assert not fields & {"line", "strategy"}, spec["title"]
            told |= {step["calculate"] for step in layer.get("transform", []) if "as" in step}
    assert any('"custom_loop": "Custom training loop"' in calculated for calculated in told)


@pytest.mark.parametrize("which", ["published_specs", "crowded_specs"])
def test_what_lines_join_is_one_line_and_no_two_look_alike(which, request):
    for spec in request.getfixturevalue(which):
        for layer in spec["layer"]:
            encoding = layer["encoding"]
            if mark_of(layer) != "line" or "by-epoch" not in spec["usermeta"]["figure"]:
                continue
            data = layer.get("data", spec.get("data"))["name"]
            rows = pd.DataFrame(spec["datasets"][data])
            looks = [encoding[name]["field"] for name in LOOKS if name in encoding]
            details = [of["field"] for of in encoding["detail"]]
            joined = rows.groupby([*{*looks, *details}])[encoding["x"]["field"]]
            assert (joined.count() == joined.nunique()).all(), spec["title"]
            styles = rows[["strategy"]].assign(
                look=[
                    str([_drawn_as(encoding, name, row) for name in LOOKS])
                    for row in rows.to_dict("records")
                ]
            )
            if rows["strategy"].nunique() > 2:
                assert (styles.groupby("look")["strategy"].nunique() == 1).all(), spec["title"]


def test_panels_have_each_line_once_and_share_their_axis(crowded_specs):
    shown = [one for one in crowded_specs if one["usermeta"]["figure"] == "loss-by-epoch"]
    lines = []
    for spec in shown:
        (rows,) = spec["datasets"].values()
        named = {(row["strategy"], row["batch_per_worker"], row["nodes"]) for row in rows}
        assert len(named) <= 6
        lines += named
    assert len(lines) == len(set(lines)) == 12 * 2 * 2
    assert len({str(one["layer"][0]["encoding"]["y"]) for one in shown}) == 1


def _drawn_as(encoding, channel, row):
    """Return the colour, shape or dashes of a row; its value if the scale sets no range."""
    if channel not in encoding:
        return None
    value = row[encoding[channel]["field"]]
    scale = encoding[channel].get("scale", {})
    if "range" not in scale:
        return value
    return scale["range"][scale["domain"].index(value) % len(scale["range"])]


def series_of(specs):
    """Yield figure, strategy or variant, kind and colour of every row with a strategy's colour."""
    for spec in specs:
        for layer in spec["layer"]:
            encoding = layer["encoding"]
            if encoding.get("color", {}).get("field") == "series":
                data = layer.get("data", spec.get("data"))["name"]
                for row in spec["datasets"][data]:
                    name = row["line"] if "line" in row else row["strategy"]
                    colour = _drawn_as(encoding, "color", row)
                    yield spec["usermeta"]["figure"], name, row["kind"], colour


def test_a_strategy_has_its_colour_in_every_chart_and_a_variant_a_shade_of_it(published_specs):
    variants = named_variants(read_config(PUBLISHED))
    behind = {name: variant.strategy for name, variant in variants.items()}
    found = set(series_of(published_specs))
    for _, name, kind, colour in found:
        strategy = "multi_worker_mirrored" if kind == "published" else behind.get(name, name)
        assert strategy in STRATEGIES
        shades = {
            shade for n in range(1, MOST_LINES) for shade in theme.strategy_shades(strategy, n)
        }
        assert colour in shades, (name, kind)
    own = {(name, colour) for figure, name, _, colour in found if "by-epoch" in figure}
    own = {(name, colour) for name, colour in own if name in STRATEGIES}
    assert len(own) > 3
    assert all(colour == theme.strategy_shades(name)[0] for name, colour in own)
    assert {name for _, name, _, _ in found} & set(behind)


def test_no_figure_has_other_colours_for_strategies(published_specs, crowded_specs, many_specs):
    for spec in [*published_specs, *crowded_specs, *many_specs]:
        for layer in spec["layer"]:
            fields = {layer["encoding"].get(name, {}).get("field") for name in ("color", "fill")}
            assert not fields & {"strategy", "line", "strategy_title"}, spec["title"]


def test_what_is_published_differs_from_ours_by_shade_mark_and_dots(drawn):
    line, _, points, *_ = figure_of(drawn, "time").spec()["layer"]
    scale = line["encoding"]["strokeDash"]["scale"]
    dashes = dict(zip(scale["domain"], scale["range"], strict=True))
    assert dashes["published"] == theme.DOTTED and theme.DOTTED not in theme.DASHES
    colours = points["encoding"]["color"]["scale"]
    colour = dict(zip(colours["domain"], colours["range"], strict=True))
    own, shade = theme.strategy_shades("multi_worker_mirrored", 2)
    assert (colour["measured"], colour["published"]) == (own, shade)


def test_variants_of_a_strategy_share_its_colour_and_have_dashes_of_their_own(tmp_path):
    named = (("custom_loop", None), ("custom_loop", "mine"), ("mirrored", None))
    cells = [
        make.cell(n=2, strategy=strategy, variant=variant, extent=make.EPOCHS)
        for strategy, variant in named
    ]
    tables = build_tables(make.write(map(make.record, cells), tmp_path), None)
    variants = {"mine": Variant("custom_loop", "Custom training loop (mine)")}
    figures = draw_figures(tables, {}, variants)
    (figure,) = [one for one in figures if one.figure == "loss-by-epoch"]
    (line,) = [of for of in figure.spec()["layer"] if mark_of(of) == "line"]
    look = line["encoding"]
    assert look["color"]["scale"]["domain"] == ["custom_loop/2/64", "mine/2/64", "mirrored/2/64"]
    own, shade = theme.strategy_shades("custom_loop", 2)
    assert look["color"]["scale"]["range"] == [own, shade, *theme.strategy_shades("mirrored")]
    # In grey, the dashes distinguish the lines.
    assert look["strokeDash"]["scale"]["range"] == theme.DASHES[:3]
    assert '"Custom training loop (mine)"' in look["color"]["legend"]["labelExpr"]


def test_every_figure_is_there_once(drawn):
    names = sorted(figure.figure for figure in drawn.values())
    assert names.count("time") == names.count("accuracy") == names.count("split") == 1
    # one for steps and one for whole epochs
    assert names.count("speedup") == names.count("efficiency") == 2
    assert names.count("loss-by-epoch") == names.count("accuracy-by-epoch") == 1
    sources = sorted(f.of["source"] for f in drawn.values() if f.figure == "fit")
    assert sources == ["measured", "measured", "published"]
    assert names.count("outlook") == names.count("reach") == len(sources)
    assert names.count("saved") == 1


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_names_tables_that_there_are(name):
    declared = FIGURES[name]
    assert declared.tables
    assert set(declared.tables.split()) <= {*COLUMNS, *OVERHEAD, MODELS, ALL_REDUCES}
    assert declared.axes
    assert declared.plots and declared.reading.endswith(".")


def test_every_figure_that_is_drawn_is_registered_under_its_name(drawn):
    assert {figure.figure for figure in drawn.values()} <= set(FIGURES)
    for figure in drawn.values():
        assert figure.title and figure.alt


def test_figures_of_one_heading_stand_together_on_the_result_pages():
    shown = sections()
    assert next(iter(shown)) == "Training time"
    assert shown["Speed-up and efficiency"] == ["speedup", "efficiency"]


def test_a_figure_is_left_out_if_one_of_its_tables_is_not_there(study):
    curves = {"curves": study[1]["curves"]}
    assert {one.figure for one in draw_figures(curves, {}, {})} <= {
        name for name in FIGURES if set(FIGURES[name].tables.split()) <= {"curves"}
    }


def test_every_figure_says_its_kinds_its_units_and_its_numbers(drawn):
    for figure in drawn.values():
        spec = figure.spec()
        told = spec["title"]["subtitle"].split(" · ")[bool(figure.finding) :]
        assert figure.kinds and told[: len(figure.kinds)] == list(figure.kinds)
        assert any(character.isdigit() for character in spec["description"])
        assert not figure.caption or figure.caption.endswith(".")
        titles = json.dumps(spec, ensure_ascii=False)
        assert spec["width"] == "container"
        units = ("(s", "Speed-up", "accuracy", "loss", "Efficiency", "Share")
        assert any(unit in titles for unit in units)
        assert "tooltip" in titles


def test_the_pictures_are_whole_and_the_specifications_small(study, drawn):
    folder = study[0] / "charts"
    for name, figure in drawn.items():
        svg = (folder / f"{name}.svg").read_text()
        assert svg.startswith("<svg") and svg.rstrip().endswith("</svg>")
        # Only titles have a label; labels of marks would be half of the file.
        assert svg.count("aria-label") <= 2
        assert svg.count("<path") > 10
        assert figure.title in svg
        assert (folder / f"{name}.vl.json").stat().st_size < 60_000
        table = pd.read_csv(StringIO((folder / f"{name}.csv").read_text()))
        assert len(table) == len(figure.data) and list(table) == list(figure.data)


def test_specifications_compile_without_a_warning(drawn, capfd):
    for figure in drawn.values():
        spec = figure.spec() | {"width": 300}
        vl_convert.vegalite_to_vega(spec, vl_version=VEGA_LITE, show_warnings=True)
    printed = capfd.readouterr()
    assert printed.out + printed.err == ""


def test_training_time_draws_measured_projected_and_published_apart(drawn):
    figure = figure_of(drawn, "time")
    kinds = ["measured", "measured step time × steps", "published"]
    assert figure.kinds == kinds
    assert set(figure.data["kind"]) == set(kinds)
    layer = figure.spec()["layer"][2]["encoding"]
    assert layer["color"]["field"] == "series"  # In this study each kind has one series.
    assert layer["color"]["scale"]["domain"] == kinds
    assert layer["shape"]["field"] == "kind"
    shapes = dict(zip(*(layer["shape"]["scale"][end] for end in ("domain", "range")), strict=True))
    assert len({shapes[kind] for kind in kinds}) == 3
    assert layer["fillOpacity"]["condition"]["test"] == "datum.flags"
    assert "times the number of steps of the training" in FIGURES["time"].reading
    told = {tip["field"] for tip in layer["tooltip"]}
    assert {"kind", "nodes", "seconds", "low", "high", "repeats"} <= told


def test_intervals_are_drawn_only_where_there_are_some(drawn):
    figure = figure_of(drawn, "time")
    rule = figure.spec()["layer"][1]
    assert rule["mark"]["type"] == "rule"
    assert rule["transform"] == [{"filter": "isValid(datum.low)"}]
    assert figure.data["low"].isna().any() and figure.data["low"].notna().any()


def test_accuracy_shows_whole_epochs_only(drawn):
    data = figure_of(drawn, "accuracy").data
    assert set(data.loc[data["kind"] == "measured", "batch_per_worker"]) == {256, 512}
    assert (data.loc[data["kind"] == "published"].shape[0]) == 15


def test_the_split_stacks_four_parts_of_each_point(drawn):
    data = figure_of(drawn, "split").data
    parts = data.groupby(["batch_per_worker", "nodes"])["part"].apply(set)
    assert all(part == set(theme.PART_COLOURS) for part in parts)
    # Each part is stacked once.
    assert not data.duplicated(["batch_per_worker", "nodes", "part"]).any()


def test_a_fit_draws_lines_points_and_crosses_apart(drawn):
    published = figure_of(drawn, "fit", source="published")
    marks = [mark_of(layer) for layer in published.spec()["layer"]]
    if marks[-1] == "text":
        marks.pop()  # the labels of lines
    assert marks[-3:] == ["line", "point", "point"]
    roles = published.data["role"].value_counts()
    assert roles["observed"] == 15 and roles["predicted"] == 35
    assert roles["held out"] == 5  # the largest node count of each of the five batches
    assert "A cross" in FIGURES["fit"].reading
    assert "predicted, held out" in json.dumps(published.spec())


def test_a_speed_up_is_told_up_to_64_nodes_with_its_interval(drawn):
    figure = figure_of(drawn, "reach", source="published")
    lines = figure.data[figure.data["role"] != "observed"]
    assert lines["nodes"].max() == 64
    assert (lines["low"] <= lines["high"]).all()
    axes = [layer["encoding"]["x"]["scale"]["type"] for layer in figure.spec()["layer"]]
    assert set(axes) == {"log"}
    assert set(lines.loc[lines["nodes"] > 3, "role"]) == {"predicted"}


def test_speed_ups_are_drawn_over_batches_with_a_line_for_each_number_of_nodes(drawn):
    figure = figure_of(drawn, "batches", experiment="ntua_steps")
    assert set(figure.data["nodes"]) == {2, 3}
    colour = figure.spec()["layer"][1]["encoding"]["color"]
    assert colour["field"] == "nodes" and colour["scale"]["domain"] == [2, 3]
    assert colour["scale"]["range"] == theme.node_colours([2, 3])
    batches = figure.spec()["layer"][1]["encoding"]["x"]["axis"]["values"]
    assert batches == sorted(set(figure.data["batch_per_worker"]))


def test_savings_stand_beside_what_the_study_foresaw(drawn):
    figure = figure_of(drawn, "saved", study="ntua")
    data = figure.data.set_index(["role", "nodes"])["saved"]
    assert data["foreseen by the study", 6] == 0.67
    assert set(data["observed"].index) == {2, 3} == set(data["fitted"].index)
    assert set(data["predicted"].index) == set(range(4, 11))
    assert figure.kinds == ["published", "fitted", "predicted"]
    assert "Foreseen by the study: 67.0 % on 6 nodes." in figure.alt


def emulated(rate, nodes, experiment):
    """Return a record of a cell on an emulated cluster with a link of `rate` Mbit/s."""
    cluster = {"kind": "emulated", "node": {"cpu": 0.2}, "link": {"rate_mbit": rate}}
    cell = make.cell(experiment=experiment, n=nodes, cluster=cluster, batch=512)
    return make.record(cell).model_copy(update={"kind": "emulated"})


def times_of(tables):
    """Return the chart of training times and the encoding of its lines."""
    (figure,) = [one for one in draw_figures(tables, {}, {}) if one.figure == "time"]
    return figure, figure.spec()["layer"][0]["encoding"]


def test_lines_of_several_clusters_are_told_apart_by_shade_and_dash(tmp_path):
    experiments = [(100, "steps"), (400, "link_400")]
    records = [emulated(rate, n, name) for rate, name in experiments for n in (1, 2, 3)]
    figure, line = times_of(build_tables(make.write(records, tmp_path), None))
    kind = "emulated step time × steps"
    assert figure.kinds == [kind]
    names = ["0.2 core, 100 Mbit/s", "0.2 core, 400 Mbit/s"]
    assert line["color"]["scale"]["domain"] == names
    assert line["color"]["scale"]["range"] == theme.strategy_shades("multi_worker_mirrored", 2)
    assert line["strokeDash"]["scale"]["domain"] == names
    assert line["strokeDash"]["scale"]["range"] == theme.DASHES[:2]
    assert "series" not in figure.data


def test_more_lines_than_can_be_told_apart_are_left_to_the_chart_of_settings(tmp_path):
    links = [25, 50, 100, 200]
    records = [emulated(rate, n, f"link_{rate}") for rate in links for n in (1, 2)]
    alone = build_tables(make.write(records, tmp_path / "alone"), None)
    figure, line = times_of(alone)
    assert set(figure.data["experiment"]) == {f"link_{rate}" for rate in links}
    assert len(set(line["color"]["scale"]["range"])) == len(links)
    records += [emulated(300, n, "steps") for n in (1, 2, 3)]
    figure, _ = times_of(build_tables(make.write(records, tmp_path / "beside"), None))
    assert set(figure.data["experiment"]) == {"steps"}


def test_where_there_is_little_room_the_ends_of_the_node_numbers_remain(drawn):
    spec = figure_of(drawn, "time").spec()
    place = [mark_of(layer) for layer in spec["layer"]].index("text")
    numbers, rows = spec["layer"][place], pd.DataFrame(rows_of(spec)[place])
    assert numbers["mark"]["opacity"]["expr"].startswith("datum.end || width > ")
    assert set(rows.loc[rows["end"], "nodes"]) == {1, 3} and not rows["end"].all()


def told_by(figure, mark):
    """Return what the tooltip of the first marks of this type shows: title -> column."""
    layers = [layer for layer in figure.spec()["layer"] if layer["mark"]["type"] == mark]
    return {tip["title"]: tip["field"] for tip in layers[0]["encoding"]["tooltip"]}


def test_a_mark_tells_its_cell_and_no_caution_where_there_is_none(drawn):
    figure = figure_of(drawn, "time")
    assert told_by(figure, "point")["Cell"] == "cell_id"
    assert "Caution" in told_by(figure, "point") and (figure.data["flags"] != "").any()
    published = figure_of(drawn, "fit", source="published")
    assert {"Cell", "Caution"}.isdisjoint(told_by(published, "point"))


def test_a_bar_that_calls_for_caution_has_a_mark_at_its_end(drawn):
    figure = figure_of(drawn, "split")
    flagged = figure.data[figure.data["flags"] != ""]
    at = ["batch_per_worker", "nodes"]
    bars = flagged.groupby(at).agg({"seconds": "sum", "step_time_high_s": "first"}).max(axis=1)
    spec = figure.spec()
    (marks,) = [
        pd.DataFrame(rows).set_index(at)["end"]
        for layer, rows in zip(spec["layer"], rows_of(spec), strict=True)
        if layer["mark"].get("text") == "!"
    ]
    assert 0 < len(bars) < figure.data.groupby(at).ngroups
    assert marks.to_dict() == pytest.approx(bars.to_dict(), rel=1e-4)


def test_a_bar_of_several_launches_has_the_interval_of_its_step_and_one_launch_has_none(tmp_path):
    cells = [make.cell(n=n, repeat=repeat) for n in (1, 2) for repeat in range(3)]
    records = map(make.record, [*cells, make.cell(n=3)])
    tables = build_tables(make.write(records, tmp_path), None)
    (figure,) = [one for one in draw_figures(tables, {}, {}) if one.figure == "split"]
    spec = figure.spec()
    (lines,) = [
        pd.DataFrame(rows).set_index("nodes")
        for layer, rows in zip(spec["layer"], rows_of(spec), strict=True)
        if layer.get("name") == "intervals"
    ]
    curves = tables["curves"].set_index("nodes")
    for end in OF_BARS:
        known = curves[end].dropna()
        assert set(known.index) == {1, 2}
        assert lines[end].to_dict() == pytest.approx(known.to_dict(), rel=1e-4)
    told = {tip["field"] for tip in spec["layer"][1]["encoding"]["tooltip"]}
    assert {*OF_BARS, "step_time_s", "repeats"} <= told and "seconds" not in told


def test_losses_are_not_drawn_below_nothing_nor_accuracies_above_all(drawn):
    for value, end in (("loss", ("domainMin", 0)), ("accuracy", ("domainMax", 1))):
        for layer in figure_of(drawn, f"{value}-by-epoch").spec()["layer"]:
            assert end in layer["encoding"]["y"]["scale"].items()


def test_crowded_points_are_hollow_and_not_on_the_line(drawn):
    figure = figure_of(drawn, "fit", source="measured", experiment="ntua_steps")
    points = figure.data[figure.data["role"] == "observed"]
    assert set(points.loc[points["flags"] != "", "nodes"]) == {3}
    assert set(points.loc[points["flags"] == "", "nodes"]) == {1, 2}
    line = figure.data[figure.data["role"] == "fitted"]
    assert line["nodes"].max() == 2


def test_a_point_is_hollow_in_every_chart_or_in_none(study, drawn):
    curves = study[1]["curves"].set_index("cell_id")["flags"]
    assert (curves != "").any()
    for name in ("time", "fit", "outlook", "reach", "speedup"):
        figures = [one for one in drawn.values() if one.figure == name]
        points = pd.concat([one.data for one in figures]).query("cell_id != ''")
        assert points["flags"].tolist() == curves[points["cell_id"]].tolist(), name


def test_the_predicted_line_begins_where_the_fitted_one_ends(drawn):
    spec = figure_of(drawn, "outlook", source="published").spec()
    lines = pd.DataFrame(rows_of(spec)[1]).query("batch_per_worker == 64")
    ends = lines.groupby("role")["nodes"].agg(["min", "max"])
    assert ends.loc["fitted", "max"] == ends.loc["predicted", "min"] == 3


def test_a_generated_stand_in_shows_in_legend_and_words(tmp_path):
    records = [make.record(make.cell(n=n), origin="generated") for n in (1, 2)]
    tables = build_tables(make.write(records, tmp_path), None)
    overhead = {name: typed((), columns) for name, columns in OVERHEAD.items()}
    for figure in figures(tables, overhead):
        assert all("generated data" in kind for kind in figure.kinds)
        assert "generated data" in figure.alt


def test_without_results_there_is_no_figure_but_what_draws_them(tmp_path):
    make.write_study(tmp_path, [])
    assert draw_all(tmp_path) == []
    names = {path.name for path in (tmp_path / "charts").iterdir()}
    assert names == {"vega.js", "themes.js", ".nodewise"}


def test_figures_of_cells_that_are_gone_are_removed(tmp_path):
    make.write_study(tmp_path, [make.record(make.cell(n=n)) for n in (1, 2)])
    draw_all(tmp_path)
    files = [tmp_path / f"charts/{MEASURED}-split.{end}" for end in ("vl.json", "csv", "svg")]
    assert all(path.is_file() for path in files)
    make.write_study(tmp_path, [])
    draw_all(tmp_path)
    assert not any(path.exists() for path in files)


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
    assert rows.loc[rows["nodes"] == 1, "speedup"].to_list() == pytest.approx(
        [1] * (rows["nodes"] == 1).sum()
    )
    (theirs,) = rows.query("kind == 'published' and batch_per_worker == 512 and nodes == 3")[
        "seconds"
    ]
    (alone,) = rows.query("kind == 'published' and batch_per_worker == 512 and nodes == 1")[
        "seconds"
    ]
    told = rows.query("kind == 'published' and batch_per_worker == 512 and nodes == 3")["speedup"]
    assert told.to_list() == pytest.approx([alone / theirs])


def test_the_ideal_of_every_batch_starts_at_its_own_point(drawn):
    figure = figure_of(drawn, "speedup", experiment="ntua_steps")
    guide = pd.DataFrame(rows_of(figure.spec())[0]).set_index(["batch_per_worker", "nodes"])
    ours = figure.data.set_index(["batch_per_worker", "nodes"])
    for batch in ours.index.unique("batch_per_worker"):
        one = ours.loc[(batch, 1), "examples_per_s"]
        assert guide.loc[(batch, 1), "examples_per_s"] == pytest.approx(one, rel=1e-4)
        assert guide.loc[(batch, 3), "examples_per_s"] == pytest.approx(3 * one, rel=1e-4)
        assert guide.loc[(batch, 3), "speedup"] == 3


def test_intervals_of_a_fit_are_drawn_as_far_as_the_frame(drawn):
    figure = figure_of(drawn, "fit", experiment="ntua_steps")
    drawn_ends = pd.DataFrame(rows_of(figure.spec())[0])[["low_s", "high_s"]]
    values = figure.data[["observed_s", "fitted_s"]]
    assert drawn_ends["high_s"].max() <= 1.41 * values.max().max()
    assert drawn_ends["low_s"].min() >= values.min().min() / 1.41


def test_axes_of_counts_have_whole_numbers_and_not_too_many():
    assert whole_ticks([2, 4]) == [2, 3, 4] and whole_ticks([1]) == [1]
    assert whole_ticks(range(1, TICKS + 1)) == [*range(1, TICKS + 1)]
    assert whole_ticks(range(1, 31)) == [*range(3, 31, 3)]


def test_axes_of_nodes_and_epochs_have_a_mark_for_each_of_few(drawn):
    for figure in drawn.values():
        for name in ("nodes", "epoch"):
            axes = [layer["encoding"].get("x", {}) for layer in figure.spec()["layer"]]
            axes = [axis for axis in axes if axis.get("field") == name]
            for axis in axes:
                assert all(isinstance(mark, int) for mark in axis["axis"]["values"]), figure.name


def test_every_kind_has_a_colour_and_a_shape():
    assert set(theme.KIND_COLOURS) == set(theme.KIND_SHAPES) == set(KINDS)
    labels = [kind_label(kind, projected=p) for kind in KINDS for p in (False, True)]
    assert len(theme.kind_colours(labels)) == len(theme.kind_shapes(labels)) == len(labels)
    plain = theme.kind_shapes(list(KINDS))
    assert len(set(plain)) == len(plain)


def contrast(one, other):
    """Return the WCAG contrast ratio of two colours."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_marks_stand_out_from_the_light_and_the_dark_page():
    marks = [*theme.KIND_COLOURS.values(), *theme.PART_COLOURS.values(), theme.NEUTRAL]
    marks += [shade for shades in theme.STRATEGY_COLOURS.values() for shade in shades]
    marks += theme.strategy_shades("a plug-in's own", 3)
    marks += theme.ramp(7) + theme.batch_colours(range(1, 2049)) + theme.node_colours(range(1, 257))
    pages = (LIGHT_PAGE, LIGHT_CARD, DARK_PAGE, DARK_CARD)
    assert all(contrast(mark, page) >= 3 for mark, page in itertools.product(marks, pages))


# What people see, in linear RGB: those with all cones, and those who lack one kind, at full
# severity (Machado, Oliveira and Fernandes 2009, doi:10.1109/TVCG.2009.113).
SIGHTS = {
    "all cones": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def oklab(colour, sight):
    """Return the Oklab coordinates of a colour as seen (https://bottosson.github.io/posts/oklab/)."""
    parts = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(sight) @ linear, 0, 1)
    cones = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    axes = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return axes @ np.cbrt(cones @ seen)


@pytest.mark.parametrize("sight", SIGHTS)
def test_every_strategy_has_a_colour_that_looks_like_no_other(sight):
    assert set(theme.STRATEGY_COLOURS) <= set(STRATEGIES)
    colours = {name: theme.strategy_shades(name)[0] for name in STRATEGIES}
    assert len(set(colours.values())) == len(colours)
    seen = {name: oklab(colour, SIGHTS[sight]) for name, colour in colours.items()}
    least = 0.08 if sight == "all cones" else 0.035  # A distance of 0.02 is just noticeable.
    alike = [
        pair
        for pair in itertools.combinations(seen, 2)
        if np.linalg.norm(seen[pair[0]] - seen[pair[1]]) < least
    ]
    assert alike == []


def test_the_style_sheet_has_the_colours_of_the_charts():
    style = Path("site/assets/style.css").read_text()
    colours = {**theme.KIND_COLOURS, **theme.PART_COLOURS}
    told = dict(re.findall(r"--nw-(\w+): (#[0-9a-f]{6});", style))
    both = colours.keys() & told.keys()
    assert {"measured", "published", "compute", "communicate"} <= both
    assert {name: told[name] for name in both} == {name: colours[name] for name in both}


def test_text_is_readable_on_the_light_and_the_dark_page():
    for dark, pages in ((False, (LIGHT_PAGE, LIGHT_CARD)), (True, (DARK_PAGE, DARK_CARD))):
        config = theme.vega_config(dark=dark)
        texts = [config["axis"]["labelColor"], config["legend"]["labelColor"]]
        texts += [config["title"]["color"], config["title"]["subtitleColor"]]
        texts += [config["style"][theme.INTERVAL]["color"]]
        assert all(contrast(text, page) >= 4.5 for text, page in itertools.product(texts, pages))


@pytest.mark.parametrize("count", range(1, 9))
def test_a_ramp_has_as_many_colours_as_are_asked_for(count):
    assert len(set(theme.ramp(count))) == count


def test_every_batch_and_every_number_of_nodes_has_a_colour_of_its_own():
    doubled = [2**power for power in range(17)]
    colours = theme.batch_colours(doubled) + theme.node_colours([1, 3, *doubled[1:11]])
    assert len(set(colours)) == len(colours)
    assert theme.batch_colours([32]) + theme.batch_colours([512]) == theme.batch_colours([32, 512])
    for ramp in (theme.batch_colours(doubled[3:11]), theme.node_colours([1, 2, 3, 4, 8, 16])):
        assert all(contrast(*pair) > 1.3 for pair in itertools.pairwise(ramp)), "alike in grey"


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
