"""Pages escape all texts, show every number with its kind, and say what is missing."""

import json
import posixpath
import re
import shutil
from pathlib import Path
from urllib.parse import unquote

import markdown
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import make_records as make
from nodewise.core.errors import UserError
from nodewise.core.units import KINDS
from nodewise.core.user_function import own_dataset_name
from nodewise.report import html as markup
from nodewise.report.context import read_context
from nodewise.report.html import number, slug
from nodewise.report.page_figure import PageFigure, read_figure
from nodewise.report.pages import PAGES
from nodewise.report.pages.glossary import read_glossary
from nodewise.report.tables import Column, table
from rendering import Texts, render

CONFIG = Path("config/study.yaml")
SITE = Path("site")


def front_matter(page):
    return yaml.safe_load(page.read_text().split("---\n")[1])


# --- escaping ---


@given(st.text(st.characters(codec="utf-8"), max_size=60))
def test_any_text_comes_out_as_itself_after_markdown_and_html(value):
    inside = markdown.markdown(
        f"<p>{markup.text(value)}</p>", extensions=["tables", "fenced_code", "attr_list", "toc"]
    )
    shown = Texts(inside)
    assert shown.tags == ["p"]
    assert re.sub(r"\s+", " ", shown.text) == re.sub(r"\s+", " ", markup_shows(value))


def markup_shows(value):
    """Return `value` with invisible characters replaced, as `markup.text` promises."""
    hidden = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
    return re.sub(hidden, "\ufffd", value)


@given(st.recursive(st.text() | st.floats(allow_nan=False) | st.none(), st.lists))
def test_json_in_a_script_element_cannot_end_it_and_reads_back(value):
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return
    try:
        written = str(markup.script_json(value))
    except ValueError:  # The value is a list that contains an infinity.
        return
    assert "<" not in written and "&" not in written
    assert json.loads(written) == value


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_a_title_in_front_matter_reads_back_as_escaped_text(value):
    line = f"title: {markup.front_matter_text(value)}"
    title = yaml.safe_load(line)["title"]
    assert Texts(title).tags == [] and '"' not in title
    assert Texts(title).text == markup_shows(value)


# --- kinds ---


# --- pages ---


@pytest.fixture(scope="module")
def context(study):
    return read_context(CONFIG, study)


@pytest.mark.parametrize("name", PAGES)
def test_every_page_has_a_title_and_is_rendered(name, context, study):
    for page in PAGES[name](context):
        assert page.title
        assert front_matter(study / "docs" / page.source)["title"]


def test_every_page_is_linked_from_another_or_in_the_navigation(study):
    """Follow links from the home page and the pages of the navigation; this reaches all pages."""
    docs = study / "docs"
    known = set(re.findall(r": (\S+\.md)$", Path("mkdocs.yml").read_text(), re.MULTILINE))
    ahead = [*known]
    while ahead:
        page = ahead.pop()
        links = re.findall(r'(?:href="|\]\()([^")#?]+)', (docs / page).read_text())
        for link in links:
            found = posixpath.normpath(posixpath.join(posixpath.dirname(page), unquote(link)))
            found = re.sub(r"\.html$", ".md", found)
            if (docs / found).suffix == ".md" and (docs / found).is_file() and found not in known:
                known.add(found)
                ahead.append(found)
    assert {str(path.relative_to(docs)) for path in docs.rglob("*.md")} - known == set()


def test_every_cell_is_on_the_page_of_its_curve_with_its_record(study):
    cells = pd.read_parquet(study / "tables" / "cells.parquet")
    for cell_id in cells["cell_id"]:
        _, model, way = cell_id.split("/")[:3]
        page = study / "docs/curves" / slug(model) / f"{slug(way)}.md"
        assert f'href="../../records/{cell_id}.json"' in page.read_text()
        record = (study / "docs" / "records" / f"{cell_id}.json").read_text()
        assert json.loads(record)["cell"]["batch"] == int(cell_id.split("batch~")[1].split("/")[0])


@pytest.mark.slow
def test_the_record_of_a_cell_that_is_gone_is_removed(tmp_path):
    records = [make.record(make.cell(batch=batch)) for batch in (32, 64)]
    make.write_study(tmp_path, records)
    render(tmp_path)
    page = tmp_path / "docs" / "records" / f"{records[1].cell.id}.json"
    assert page.is_file()
    (tmp_path / "records" / f"{records[1].cell.id}.json").unlink()
    make.write_study(tmp_path, records[:1])
    render(tmp_path)
    assert not page.exists()


def test_results_on_a_user_s_own_data_have_an_address_of_words(tmp_path):
    """Only results on a second dataset of the same model have that dataset's name as well."""
    loads = ("models/examples/mine.py:load", "models/examples/other.py:load")
    records = [
        make.record(
            make.cell(
                experiment=f"own_{index}",
                model="mine",
                build="models/examples/mine.py:build",
                load=load,
                dataset=own_dataset_name(load),
            ),
            origin="own",
        )
        for index, load in enumerate(loads)
    ]
    make.write_study(tmp_path, records)
    pages = render(tmp_path) / "results"
    found = {str(path.relative_to(pages)) for path in pages.rglob("*.md")}
    second = slug(own_dataset_name(loads[1]))
    assert found == {"index.md", "own-data/mine.md", f"{second}/mine.md"}


def test_a_failed_cell_shows_its_reason_on_three_pages(study):
    gap = "worker 2 did not finish in time"
    pages = ["results/fashion-mnist/fashion-cnn.md", "records.md"]
    pages.append("curves/fashion-cnn/multi-worker-mirrored.md")
    for page in pages:
        assert gap in Texts((study / "docs" / page).read_text()).text
    cell = Texts((study / "docs" / pages[2]).read_text()).text
    assert "killed after 600 s" in cell and "snakemake --cores all --force" in cell


def test_without_a_single_record_the_pages_say_so(tmp_path):
    make.write_study(tmp_path, [])
    (tmp_path / "records").mkdir(exist_ok=True)
    docs = render(tmp_path)
    assert "No cell of this study has a result yet" in (docs / "index.md").read_text()
    assert "No cell has been measured yet" in (docs / "results/index.md").read_text()
    studies = Texts((docs / "studies/index.md").read_text()).text
    assert "agree with 0 and contradict 0" in studies and "17 claims with too little" in studies


def test_without_a_single_result_the_failures_are_shown(tmp_path):
    cells = [make.cell(n=n) for n in (1, 2)]
    make.write_study(tmp_path, [make.failed(cell, "no memory", status="refused") for cell in cells])
    docs = render(tmp_path)
    assert "no memory" in (docs / "results/fashion-mnist/fashion-cnn.md").read_text()
    assert "refused" in (docs / "curves/fashion-cnn/multi-worker-mirrored.md").read_text()


def test_a_stand_in_is_announced_on_every_page_of_a_study_and_else_on_none(tmp_path, study):
    records = [make.record(make.cell()), make.record(make.cell(batch=128), origin="generated")]
    make.write_study(tmp_path, records)
    docs = render(tmp_path)
    # pages without numbers of a study
    plain = {path.name for path in (SITE / "pages").glob("*.md")}
    pages = [page for page in docs.rglob("*.md") if page.name not in plain]
    assert len(pages) > 8 and all(front_matter(page)["stand_in"] is True for page in pages)
    assert not any("stand_in" in front_matter(page) for page in (study / "docs").rglob("*.md"))


# --- mistakes ---


def test_a_cell_id_that_is_a_path_elsewhere_stops_with_one_line(tmp_path):
    (record,) = make.write([make.record(make.cell())], tmp_path)
    make.write_study(tmp_path, [make.record(make.cell())])
    record.rename(tmp_path / "escape.json")
    path = tmp_path / "tables" / "cells.parquet"
    pd.read_parquet(path).assign(cell_id="../escape").to_parquet(path)
    with pytest.raises(UserError, match="is not the record of the cell"):
        render(tmp_path)
    assert not (tmp_path / "docs").exists()


def test_a_cell_without_its_record_stops_with_one_line(tmp_path):
    make.write_study(tmp_path, [make.record(make.cell())])
    (tmp_path / "records" / f"{make.cell().id}.json").unlink()
    with pytest.raises(UserError, match="no record of the cell"):
        render(tmp_path)


# --- figures on pages ---


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


# --- tables on pages ---


def test_no_number_without_a_kind():
    with pytest.raises(ValueError, match="kind"):
        number(1.0, "s", "roughly")
    with pytest.raises(ValueError, match="kind"):
        Column("step_time_s", "Step time", "s")
    rows = pd.DataFrame({"step_time_s": [1.0], "label": ["measured"]})
    hidden = Column("step_time_s", "Step time", "s", kind_from="label")
    with pytest.raises(ValueError, match="shown beside"):
        table(rows, [hidden])
    shown = table(rows, [hidden, Column("label", "Kind")])
    assert "nw-kind" in shown.rows[0][1]


def test_missing_numbers_are_dashes_and_intervals_stand_below():
    rows = pd.DataFrame({"t": [None, 0.5], "low": [None, 0.4], "high": [None, 0.6]})
    column = Column("t", "Time", "s", "measured", low="low", high="high")
    (empty,), (full,) = table(rows, [column]).rows
    assert empty == "–"
    assert Texts(full).plain == "500 ms400 ms to 600 ms"


# --- the glossary ---


def test_every_kind_of_number_is_explained():
    terms = {one.term.lower() for one in read_glossary()}
    assert {kind.removesuffix(" soft") for kind in KINDS} <= terms


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("- {term: A, means: b}\n- {term: a, means: c}", "twice"),
        ("- {term: A, means: b, see: [C]}", "'C', which is not a term"),
        ("- {term: A}", "required"),
        ("- [", "cannot be read as YAML"),
    ],
)
def test_a_misfit_glossary_is_one_clear_line(tmp_path, text, told):
    path = tmp_path / "glossary.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=told):
        read_glossary(path)


# --- the home page ---


@pytest.mark.slow
def test_the_answer_is_that_of_the_largest_and_the_smallest_batch(tmp_path):
    cells = [
        make.cell(n=n, batch=batch, repeat=repeat)
        for n in (1, 2)
        for batch in (32, 512)
        for repeat in range(3)
    ]
    tables = make.write_study(tmp_path, [make.record(cell) for cell in cells])
    home = (render(tmp_path) / "index.md").read_text()
    (lead,) = re.findall(r'<p class="nw-lead"[^>]*>(.*?)</p>', home, re.DOTALL)
    lead = Texts(lead).text
    curves = tables["curves"].set_index(["nodes", "batch_per_worker"])
    for batch in (32, 512):
        assert f"{curves.loc[(2, batch), 'speedup']:#.2g} times as fast" in lead
    assert lead.index("512 examples") < lead.index("With 32 examples")
    assert lead.count("interval") == 2


def test_too_few_launches_or_crowded_machines_are_too_little_evidence(tmp_path):
    launched_twice = [make.cell(n=n, repeat=repeat) for n in (1, 2) for repeat in (0, 1)]
    crowded = [make.cell(n=3, repeat=repeat) for repeat in range(3)]  # on two cores
    make.write_study(tmp_path, map(make.record, [*launched_twice, *crowded]))
    assert "too little evidence" in (render(tmp_path) / "index.md").read_text()
