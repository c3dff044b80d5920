"""A figure on a page: its script and its table."""

import json
import shutil

import pytest

from nodewise.core.errors import UserError
from nodewise.report.page_figure import PageFigure, part_figures, read_figure

TIME = "ntua-fashion_cnn-fashion_mnist-time"


@pytest.fixture(scope="module")
def shown(study):
    return {one.name: one for one in map(read_figure, sorted(study.glob("charts/*.vl.json")))}


def specification(figure):
    """Return the name and the specification that the script of a figure provides."""
    name, _, spec = figure.script.removeprefix("(window.nodewiseCharts ??= {})[").partition("]=")
    return json.loads(name), json.loads(spec.removesuffix(";\n"))


def test_a_script_hands_over_the_specification_without_what_the_page_has(shown):
    for name, figure in shown.items():
        told, spec = specification(figure)
        assert told == name
        assert spec["layer"] == figure.spec["layer"] and spec["datasets"] == figure.spec["datasets"]
        assert not {"config", "usermeta"} & set(spec)


def test_a_script_cannot_end_the_element_that_loads_it():
    spec = {"title": "</script><script>alert(1)"}
    figure = PageFigure("odd", spec, "nodes\n1\n", 720, 320)
    assert "<" not in figure.script
    assert specification(figure)[1]["title"] == spec["title"]


@pytest.mark.parametrize("svg", ["nothing", None])
def test_a_picture_that_is_none_is_one_clear_line(study, tmp_path, svg):
    for path in study.glob(f"charts/{TIME}.*"):
        shutil.copy(path, tmp_path)
    picture = tmp_path / f"{TIME}.svg"
    picture.unlink()
    if svg is not None:
        picture.write_text(svg)
    with pytest.raises(UserError, match=rf"{picture}: is not the picture of a chart"):
        read_figure(tmp_path / f"{TIME}.vl.json")


def test_a_figure_has_a_finding_if_its_title_says_more_than_what_is_plotted(shown):
    time = shown[TIME]
    assert time.finding == time.spec["title"]["text"]
    plain = {"text": "What is plotted", "subtitle": ""}
    spec = {"title": {"text": "What is plotted"}, "usermeta": {"plain": plain}}
    assert PageFigure("plain", spec, "", 720, 320).finding == ""


def test_of_many_charts_of_a_section_three_are_shown_and_the_others_folded():
    def one(name, figure, title):
        usermeta = {"figure": figure, "plain": {"text": "What is plotted"}}
        return PageFigure(name, {"title": {"text": title}, "usermeta": usermeta}, "", 720, 320)

    plain = one("plain", "speedup", "What is plotted")
    other_view = one("efficiency", "efficiency", "2 nodes reach half")
    telling = [one(f"{n}", "speedup", f"{n} nodes are faster") for n in range(2, 6)]
    first, more = part_figures([other_view, plain, *telling])
    assert first == telling[:3]
    assert more == [other_view, plain, telling[3]]
    assert part_figures([plain]) == ([plain], [])


def test_the_table_has_every_row_and_no_column_without_a_value(shown):
    for figure in shown.values():
        heads = [str(head) for head in figure.table({}).heads]
        assert len(figure.table({}).rows) == len(figure.data)
        assert not any("cell" in head for head in heads)
        said = figure.data.drop(columns="cell_id").dropna(axis=1, how="all")
        words = said.select_dtypes(exclude="number")
        shared = [name for name in words if words[name].nunique(dropna=False) == 1]
        assert len(heads) == len(said.columns) - (len(shared) if len(said) > 1 else 0)


def test_values_are_the_same_text_in_tables_and_specifications(shown):
    figure = shown[TIME]
    column = [str(head) for head in figure.table({}).heads].index("Batch per worker")
    written = {str(row[column]) for row in figure.table({}).rows}
    drawn = {
        str(row["batch_per_worker"])
        for rows in figure.spec["datasets"].values()
        for row in rows
        if "batch_per_worker" in row
    }
    assert written == drawn


def test_names_of_strategies_are_told_in_words(shown):
    titles = {"multi_worker_mirrored": "In a ring"}
    table = shown[TIME].table({"line": lambda name: titles.get(name, name)})
    assert "In a ring" in {str(cell) for row in table.rows for cell in row}
