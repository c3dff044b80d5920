"""A figure on a page: its script and its table."""

import json
import shutil

import pytest

from nodewise.core.errors import UserError
from nodewise.report.page_figure import PageFigure, read_figure

TIME = "ntua-fashion_cnn-fashion_mnist-time"


def specification(figure):
    """Return the name and the specification that the script of a figure provides."""
    name, _, spec = figure.script.removeprefix("(window.nodewiseCharts ??= {})[").partition("]=")
    return json.loads(name), json.loads(spec.removesuffix(";\n"))


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
