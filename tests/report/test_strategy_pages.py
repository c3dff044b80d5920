"""Pages of strategies are complete and have diagrams; measured bytes stand beside formulas."""

import itertools
import re
from html import unescape
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from xml.etree import ElementTree

import pandas as pd
import pytest

import make_records as make
from nodewise.core.errors import UserError
from nodewise.predict.law import LAWS
from nodewise.report.addresses import strategy_page
from nodewise.report.context import ReportContext
from nodewise.report.formulas import formula_of
from nodewise.report.html import text as text_of
from nodewise.report.pages.strategies import read_diagrams
from nodewise.results.columns import COLUMNS
from nodewise.results.record import Record
from nodewise.results.table_files import typed
from nodewise.results.tables import build_tables
from nodewise.strategies import STRATEGIES
from nodewise.study.config import Config
from rendering import Texts, draw_all, render

# upper limits of a letter's average width, in units of the drawing
LETTER, SMALL_LETTER = 6.8, 5.9
WORDS = "nw-way__words"  # the class of sentences
STYLE_SHEET = Path("site/assets/style.css")
SVG = "{http://www.w3.org/2000/svg}"
PICTURES = [
    pytest.param(path, id=f"{name}-{path.stem}")
    for name, strategy in STRATEGIES.items()
    for path in sorted(strategy.folder.glob("diagram*.svg"))
]


class Box(NamedTuple):
    """A rectangle of a diagram."""

    x: int
    y: int
    width: int
    height: int
    style: str

    @classmethod
    def of(cls, element):
        numbers = (int(element.get(name)) for name in ("x", "y", "width", "height"))
        return cls(*numbers, element.get("class"))


def noted(record, **observed):
    """Return `record` with `observed` as the observations of each of its workers."""
    tree = record.model_dump()
    for worker in tree["result"]["workers"]:
        worker["observed"] = observed
    return Record.model_validate(tree)


def survey(strategy, n=2, **changes):
    return make.cell(n=n, strategy=strategy, experiment="survey", **changes)


def records():
    """Return records of the usual study and of some strategies that record observations."""
    rare = survey("parameter_averaging", variant="rarely", options={"period": 10})
    stale = noted(make.record(survey("async_sgd", servers=1)), staleness=[0, 1, 2, 1])
    pipeline = make.record(survey("model_parallel", input="whole"))
    return [
        *make.grid(batches=(64, 512)),
        make.record(rare),
        stale,
        noted(pipeline, bubble_share=[0.25, 0.75], pause_s=[0.5], bytes_counted=[1_000_000.0]),
        make.failed(survey("mpi"), "there is no MPI"),
    ]


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("study")
    make.write_study(folder, records(), make.published())
    draw_all(folder)
    return render(folder)


def page(docs, strategy):
    return (docs / strategy_page(strategy).replace(".html", ".md")).read_text()


def section(text, title):
    return text.partition(f"\n## {title}")[2].partition("\n## ")[0]


# --- complete ---


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_has_a_page_with_its_text_and_its_diagrams(docs, name):
    strategy, text = STRATEGIES[name], page(docs, name)
    assert (strategy.folder / "page.md").is_file()
    assert Texts(text).text.count(f"# {strategy.title}\n") == 1
    for heading in ("What happens in a step", "What it costs", "When to choose it"):
        assert len(Texts(section(text, heading)).text.split()) > 20, heading
    assert re.search("^Sources?: ", section(text, "What it costs"), re.MULTILINE)
    diagrams = read_diagrams(strategy.folder)
    assert diagrams and all(str(one.svg) in text for one in diagrams)
    ids = re.findall(r' id="([^"]+)"', section(text, "What happens in a step"))
    assert len(ids) == len(set(ids))


def test_options_have_room_and_no_column_where_there_are_none(docs):
    assert '<th scope="col" class="nw-wide">Options</th>' in page(docs, "parameter_averaging")
    assert ">Options<" not in page(docs, "single")


def test_the_index_has_a_row_for_every_strategy_and_is_in_the_navigation(docs):
    index = (docs / "strategies/index.md").read_text()
    assert index.count("<tr><td") == len(STRATEGIES)
    for name in STRATEGIES:
        address = strategy_page(name).removeprefix("strategies/")
        assert f'<a href="{address}">' in index
    assert "strategies/index.html" in (docs / "method.md").read_text()


WITH_LAW = pytest.mark.parametrize(
    "strategy", [name for name in STRATEGIES if STRATEGIES[name].exchange.law is not None]
)


@WITH_LAW
def test_every_symbol_of_a_formula_is_named_and_no_other(docs, strategy):
    cost = section(page(docs, strategy), "What it costs")
    lines = re.findall(r'<p class="nw-formula"[^>]*>.*?<math>(.*?)</math>', cost)
    told_here = [symbols(line.partition("<mo>=</mo>")[0]).pop() for line in lines]
    used = set().union(*map(symbols, lines)) - set(told_here)
    named = re.findall(r"<dt><math>(.*?)</math></dt><dd>(.+?)</dd>", cost)
    assert "t" in told_here and len(used) > 2
    assert {symbols(symbol).pop() for symbol, _ in named} == used


def symbols(mathml):
    """Return the symbols of a formula, with an index as `c_0`; names of functions are left out."""
    index = r"<msub><mi>(.*?)</mi><mi>(.*?)</mi></msub>"
    indexed = {f"{letter}_{index}" for letter, index in re.findall(index, mathml)}
    return indexed | set(re.findall(r"<mi>(.*?)</mi>", re.sub(index, "", mathml)))


@WITH_LAW
def test_a_page_shows_the_law_of_the_strategys_exchange(docs, strategy):
    cost = section(page(docs, strategy), "What it costs")
    known = str(formula_of(LAWS[STRATEGIES[strategy].exchange.law])).split("</p>")[:-1]
    assert all(line in cost for line in map(equation_in, known))


def equation_in(line):
    return re.search("<math>.*?</math>", line)[0]


def test_pages_ask_no_other_host(docs):
    for path in (docs / "strategies").glob("*.md"):
        assert not re.search(r"(src|href)=\"(https?:)?//", path.read_text())
        assert "](http" not in path.read_text()


# --- the diagrams ---


def svg(picture):
    return ElementTree.parse(picture).getroot()  # noqa: S314 (a file of the project)


def drawn(picture, kind):
    """Return the elements of a kind, such as `rect`, of a picture."""
    return list(svg(picture).iter(f"{SVG}{kind}"))


def styles(picture):
    return {one.get("class") for one in svg(picture).iter() if one.get("class")}


@pytest.mark.parametrize("picture", PICTURES)
def test_a_diagram_has_a_title_and_says_everything_in_words(picture):
    root = svg(picture)
    title, words = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert root.get("role") == "img"
    assert root.get("aria-labelledby").split() == [title.get("id"), words.get("id")]
    assert title.text
    for text in drawn(picture, "text"):
        if text.get("class") in ("nw-way__name", "nw-way__label"):
            assert text.text in words.text
    said = " ".join(one.text for one in drawn(picture, "text") if one.get("class") == WORDS)
    for sentence in re.split(r"(?<=[.:]) (?=[A-Z])", said):
        assert sentence in words.text


@pytest.mark.parametrize("picture", PICTURES)
def test_a_diagram_takes_all_its_colours_from_the_style_sheet(picture):
    known = set(re.findall(r"\.(nw-way__[a-z]+)", STYLE_SHEET.read_text()))
    assert styles(picture) <= known
    for one in svg(picture).iter():
        assert not {"style", "fill", "stroke", "color", "href", "onload"} & set(one.keys())
        assert one.tag.removeprefix(SVG) in {"svg", "title", "desc", "path", "rect", "text"}


@pytest.mark.parametrize("picture", PICTURES)
def test_words_fit_their_boxes_and_nothing_leaves_the_diagram(picture):
    width, height = map(int, svg(picture).get("viewBox").split()[2:])
    assert width == 340  # the width of a telephone
    every = [Box.of(one) for one in drawn(picture, "rect")]
    boxes = [one for one in every if one.style != "nw-way__number"]
    for one in every:
        assert one.x >= 0 and one.x + one.width <= width
        assert one.y >= 0 and one.y + one.height <= height
    for text in drawn(picture, "text"):
        x, y = int(text.get("x")), int(text.get("y"))
        holders = [b for b in boxes if b.y < y < b.y + b.height and b.x <= x <= b.x + b.width]
        if text.get("class") == WORDS:
            assert holders == []
            assert x + LETTER * len(text.text) <= width
        elif holders:
            assert SMALL_LETTER * len(text.text) <= holders[0].width
    for one, other in itertools.combinations(boxes, 2):
        apart_x = one.x + one.width < other.x or other.x + other.width < one.x
        apart_y = one.y + one.height < other.y or other.y + other.height < one.y
        assert apart_x or apart_y


@pytest.mark.parametrize("picture", PICTURES)
def test_rows_are_numbered_in_order(picture):
    texts = sorted(drawn(picture, "text"), key=lambda one: int(one.get("y")))
    numbers = [int(one.text) for one in texts if one.text.isdigit()]
    assert numbers == list(range(1, len(numbers) + 1)) and numbers


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("<svg", "is not SVG"),
        ('<svg xmlns="http://www.w3.org/2000/svg"/>', "has no <title>"),
    ],
)
def test_a_misfit_diagram_is_named_in_one_line(tmp_path, source, said):
    (tmp_path / "diagram.svg").write_text(source)
    with pytest.raises(UserError, match=said) as raised:
        read_diagrams(tmp_path)
    assert "diagram.svg: " in str(raised.value) and "\n" not in str(raised.value)


def test_what_stands_before_a_diagrams_element_is_left_out(tmp_path):
    drawing = '<svg xmlns="http://www.w3.org/2000/svg"><title>A step</title></svg>'
    (tmp_path / "diagram.svg").write_text(f'<?xml version="1.0"?>\n{drawing}\n')
    assert read_diagrams(tmp_path) == [("A step", drawing)]


def test_sent_bytes_stand_beside_those_of_the_formula(docs):
    bytes_ = section(page(docs, "multi_worker_mirrored"), "Bytes sent")
    rows = re.findall(r"<tr><td.*?</tr>", bytes_)
    assert len(rows) == 8  # steps and epochs at two batches on two and three nodes
    for row in rows:
        payload, sent, formula, ratio = map(float, re.findall(r'<data value="([^"]+)"', row))
        assert sent == pytest.approx(formula, rel=1e-3) and formula >= payload
        assert ratio == pytest.approx(1, rel=1e-3)


def test_where_no_formula_can_be_told_there_is_no_column_of_it(docs):
    bytes_ = section(page(docs, "model_parallel"), "Bytes sent")
    (row,) = re.findall(r"<tr><td.*?</tr>", bytes_)
    assert row.count("<data") == 2 and "By the formula" not in bytes_
    assert "The formula needs more than records" in Texts(bytes_).text


def test_a_table_names_its_strategies_and_links_each_once(docs):
    table = (docs / "results/fashion-mnist/fashion-cnn.md").read_text().partition("{ #curves }")[2]
    shown = {
        "parameter_averaging": "Parameter averaging (every 10 steps)",
        "multi_worker_mirrored": "MultiWorkerMirroredStrategy",
    }
    for name, title in shown.items():
        assert f'<a href="../../{strategy_page(name)}">{text_of(title)}</a>' in table
        assert table.count(f'href="../../{strategy_page(name)}"') == 1
    # Only the first row of a strategy links to its page.
    assert table.count("<td>MultiWorkerMirroredStrategy<") > 1


def test_an_experiment_has_its_title_and_an_unknown_one_its_name_as_a_strategy_has():
    ways = SimpleNamespace(title="Ways <of> training")
    config = Config.model_construct(records=[], experiments={"ways": ways})
    tables = {"cells": typed((), COLUMNS["cells"])}
    study = ReportContext(config, tables, {}, {}, {}, None, [], [], {}, pd.DataFrame(), [])
    at = ("model", "experiment", "strategy", "cluster")
    of = [("m", "ways", "unknown", "local"), ("m", "ways", "mpi", "x"), ("m", "other", "mpi", "x")]
    shown = study.with_links(pd.DataFrame(of, columns=at), "findings.html")
    assert shown["experiment"].tolist() == ["Ways <of> training"] * 2 + ["other"]
    assert shown["cluster"].tolist() == ["unthrottled process", "x", "x"]
    unknown, mpi, again = map(str, shown["strategy"])
    assert unknown == "unknown"
    assert mpi == f'<a href="strategies/mpi.html">{again}</a>' and again == "MPI"


# --- what was measured ---


def test_a_page_shows_the_split_of_its_own_cells(docs):
    text = section(page(docs, "multi_worker_mirrored"), "Where the time goes")
    assert text.count('<figure class="nw-figure"') == 1
    assert text.count("<tr><td") > 4 and "nw-kind--measured" in text
    assert "async" not in text
    averaging = section(page(docs, "parameter_averaging"), "Where the time goes")
    assert "Parameter averaging (every 10 steps)" in Texts(averaging).text


def test_a_strategy_without_cells_says_so_in_one_line(docs):
    text = page(docs, "horovod")
    assert "No cell of this study used this strategy." in text
    assert '<figure class="nw-figure">' not in text and "Its records" not in text
    assert "No cell of this strategy had its steps timed in parts." in page(docs, "mpi")


def test_cells_are_linked_by_what_the_study_calls_them(docs):
    link = '<a href="../records.html?strategy=rarely">'
    assert link in unescape(page(docs, "parameter_averaging"))
    assert link in unescape((docs / "strategies/index.md").read_text())
    assert "every 10 steps: 1" in Texts((docs / "strategies/index.md").read_text()).text


def test_a_curve_leads_to_the_page_of_its_strategy(docs):
    curve = docs / "curves/fashion-cnn/rarely.md"
    leads = re.findall(r'<a href="([^"]+)">How this strategy works</a>', curve.read_text())
    target = (curve.parent / leads[0]).resolve().relative_to(docs.resolve())
    assert target == Path(strategy_page("parameter_averaging"))
    assert (docs / target).with_suffix(".md").is_file()


def test_what_strategies_noted_is_summed_up_by_name_and_unit(docs):
    text = page(docs, "model_parallel")
    told = Texts(section(text, "What else was recorded")).text.replace("\u00a0", " ")
    assert (
        "### Idle or communicating share of a step" in told
        and "50.0 %" in told
        and "75.0 %" in told
    )
    assert "### Pause\n" in told and "500 ms" in told
    assert "### Size of the compressed gradients" in told and "1.00 MB" in told
    stale = Texts(section(page(docs, "async_sgd"), "What else was recorded")).text
    assert "### Staleness" in stale and "1.00" in stale and "2.00" in stale
    assert "What else was recorded" not in page(docs, "multi_worker_mirrored")


def test_observations_are_of_all_workers_together(tmp_path):
    tables = build_tables(make.write(records(), tmp_path), None)
    rows = tables["observations"].set_index("observation")
    assert set(rows.index) == {"staleness", "bubble_share", "pause_s", "bytes_counted"}
    assert rows.loc["staleness", "values"] == 2 * 4
    assert rows.loc["staleness", "mean"] == 1 and rows.loc["staleness", "largest"] == 2
    assert rows.loc["bubble_share", "median"] == 0.5


def test_noted_seconds_are_the_node_s_own(tmp_path):
    cluster = {"kind": "emulated", "node": {"cpu": 0.2}, "link": {"rate_mbit": 100}}
    record = make.record(survey("async_sgd", servers=1, cluster=cluster))
    record = record.model_copy(update={"kind": "emulated"})
    record = noted(record, held_s=[1.0, 3.0], staleness=[5])
    rows = build_tables(make.write([record], tmp_path), None)["observations"]
    rows = rows.set_index("observation")
    assert rows.loc["held_s", "mean"] == pytest.approx(0.4)
    assert rows.loc["staleness", "mean"] == 5


def test_what_a_worker_did_not_note_is_no_row(tmp_path):
    some = [noted(make.record(survey("async_sgd")), held_s=[]), make.failed(survey("mpi"), "no")]
    assert build_tables(make.write(some, tmp_path), None)["observations"].empty
