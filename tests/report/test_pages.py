"""Pages escape all texts, show every number with its kind, and say what is missing."""

import json
import posixpath
import re
from pathlib import Path
from urllib.parse import unquote

import markdown
import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import Markup

import make_records as make
from mistakes import user_error
from nodewise.core.schema import read_tree
from nodewise.core.units import KINDS
from nodewise.report import html as markup
from nodewise.report.context import read_context
from nodewise.report.page import curve_page
from nodewise.report.pages.about import GLOSSARY, machines
from nodewise.report.tables import Column, table
from nodewise.results.studies import studies
from nodewise.study.config import read_config
from rendering import CONFIG, Texts, render


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


PLAIN = st.text() | st.floats(allow_nan=False, allow_infinity=False) | st.none()


@given(st.recursive(PLAIN, st.lists))
def test_json_in_a_script_element_cannot_end_it_and_reads_back(value):
    written = str(markup.script_json(value))
    assert "<" not in written and "&" not in written
    assert json.loads(written) == value


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_a_title_in_front_matter_reads_back_as_escaped_text(value):
    line = f"title: {markup.front_matter_text(value)}"
    title = yaml.safe_load(line)["title"]
    assert Texts(title).tags == [] and '"' not in title
    assert Texts(title).text == markup_shows(value)


# --- pages ---


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


def test_every_cell_has_a_page_of_its_curve_to_which_charts_lead_and_its_record_is_listed(study):
    cells = pd.read_parquet(study / "tables" / "cells.parquet")
    listed = (study / "docs/records.md").read_text()
    for cell_id in cells["cell_id"]:
        record = json.loads((study / "docs" / "records" / f"{cell_id}.json").read_text())["cell"]
        page = curve_page(record["model"], record["strategy"])
        assert (study / "docs" / page).with_suffix(".md").is_file()
        assert f'href="{page}"' in listed and f'href="records/{cell_id}.json"' in listed
        assert record["batch"] == int(cell_id.split("batch~")[1].split("/")[0])
    for chart in (study / "docs/charts").glob("*.vl.json"):
        for row in json.loads(chart.read_text())["data"]["values"]:
            if row.get("cell_id"):
                assert (study / "docs" / row["page"]).with_suffix(".md").is_file()


def test_experiments_that_are_no_results_have_no_page_but_keep_their_records(study, monkeypatch):
    cells = pd.read_parquet(study / "tables" / "cells.parquet")
    left_out = cells["experiment"].iloc[0]
    config = read_config(CONFIG).model_copy(update={"left_out": [left_out]})
    monkeypatch.setattr("nodewise.report.context.read_config", lambda path: config)
    context = read_context(CONFIG, study)
    assert set(context.cells["experiment"]) == set(cells["experiment"]) - {left_out}
    assert left_out not in set(context.fit_tables["predictions"]["experiment"])
    assert machines(context)["cells"].sum() == len(context.cells)
    assert set(context.records) == set(cells["cell_id"])


def test_a_failed_cell_shows_its_reason_on_three_pages(study):
    curve = "curves/fashion-cnn/multi-worker-mirrored.md"
    for page in ("results/fashion-mnist/fashion-cnn.md", "records.md", curve):
        text = Texts((study / "docs" / page).read_text()).text
        assert "worker 2 did not finish in time" in text
    assert "killed after 600 s" in text and "snakemake --cores all --force" in text


def test_without_a_single_record_the_pages_say_so(tmp_path):
    make.write_study(tmp_path, [])
    (tmp_path / "records").mkdir(exist_ok=True)
    docs = render(tmp_path)
    assert "No cell of this study has a result yet" in (docs / "index.md").read_text()
    assert "No cell has been measured yet" in (docs / "results/index.md").read_text()
    findings = (docs / "findings.md").read_text()
    assert "Nothing is decided yet" in findings and "nw-lead" not in findings
    shown = Texts((docs / "studies/index.md").read_text()).text
    claims = sum(len(one.claims) for one in studies().values())
    assert "agree with 0 and contradict 0" in shown and f"{claims} claims with too little" in shown


def test_without_a_single_result_the_failures_are_shown(tmp_path):
    cells = [make.cell(n=n) for n in (1, 2)]
    make.write_study(tmp_path, [make.failed(cell, "no memory", status="refused") for cell in cells])
    docs = render(tmp_path)
    assert "no memory" in (docs / "results/fashion-mnist/fashion-cnn.md").read_text()
    curve = (docs / "curves/fashion-cnn/multi-worker-mirrored.md").read_text()
    assert "refused" in curve and "No launch has a result" in curve


def test_a_stand_in_is_announced_on_every_page_of_a_study_and_else_on_none(tmp_path, study):
    records = [make.record(make.cell()), make.record(make.cell(batch=128), origin="generated")]
    make.write_study(tmp_path, records)
    docs = render(tmp_path)
    # pages without numbers of a study
    plain = {path.name for path in Path("site/pages").glob("*.md")}
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
    assert "is not the record of the cell" in user_error(render, tmp_path)
    assert not (tmp_path / "docs").exists()


def test_a_cell_without_its_record_stops_with_one_line(tmp_path):
    make.write_study(tmp_path, [make.record(make.cell())])
    (tmp_path / "records" / f"{make.cell().id}.json").unlink()
    assert "no record of the cell" in user_error(render, tmp_path)


# --- tables on pages ---


def test_no_number_without_a_kind():
    with pytest.raises(ValueError, match="kind"):
        markup.number(1.0, "s", "roughly")
    with pytest.raises(ValueError, match="kind"):
        Column("step_time_s", "Step time", "s")
    rows = pd.DataFrame({"step_time_s": [1.0], "label": ["measured"]})
    hidden = Column("step_time_s", "Step time", "s", kind_from="label")
    with pytest.raises(ValueError, match="shown beside"):
        table(rows, [hidden])


def test_what_all_rows_have_in_common_is_in_the_caption_and_empty_columns_are_left_out():
    rows = [
        {"model": "<b>", "n": 1, "flags": "", "why": "long", "link": Markup('<a href="x">m</a>')},
        {"model": "<b>", "n": 2, "flags": None, "why": "longer", "link": Markup("m")},
    ]
    columns = [Column("model", "Model"), Column("flags", "Caution"), Column("link", "Link")]
    columns += [Column("why", "Why", wide=True), Column("n", "Nodes")]
    shown = table(rows, columns)
    assert Texts(str(shown.caption)).plain == "Model: <b> · Link: m"
    assert shown.heads == ["Why", "Nodes"]  # the first column stays first
    of_first = table(rows, [Column("n", "Nodes"), *columns[:-1]])
    assert of_first.heads == ["Nodes", "Why"]
    assert of_first.style == "--l1:'Nodes';--l2:'Why';--a1:right;--n1:var(--l1);--w2:1/-1;"
    assert table(rows[:1], columns).heads == ["Model", "Link", "Nodes", "Why"]
    alike = [{"t": 1.0, "model": "m"}] * 2
    assert table(alike, [columns[0], Column("t", "T", "s", "fitted")]).heads


def test_a_title_cannot_end_the_attribute_that_holds_it():
    style = table([{"x": 1}], [Column("x", "it's \"; } <b>")]).style
    title = style.removeprefix("--l1:'").removesuffix("';--a1:right;--n1:var(--l1);")
    assert not {*title} & {*"\"'<>&;"}


def test_missing_numbers_are_dashes_and_intervals_stand_below():
    rows = pd.DataFrame({"t": [None, 0.5], "low": [None, 0.4], "high": [None, 0.6]})
    column = Column("t", "Time", "s", "measured", low="low", high="high")
    (empty,), (full,) = table(rows, [column]).rows
    assert empty == "–"
    assert Texts(full).plain == "500 ms400 ms to 600 ms"


# --- the glossary ---


def test_the_glossary_explains_every_kind_of_number_and_every_term_that_it_refers_to():
    terms = read_tree(GLOSSARY)
    anchors = [markup.slug(one["term"]) for one in terms]
    assert len(set(anchors)) == len(anchors) and all(one["means"] for one in terms)
    assert {markup.slug(kind.removesuffix(" soft")) for kind in KINDS} <= {*anchors}
    assert {markup.slug(other) for one in terms for other in one.get("see", [])} <= {*anchors}
