"""Pages of strategies are complete and have diagrams; measured bytes stand beside formulas."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pandas as pd
import pytest

import make_records as make
from nodewise.report.context import read_context
from nodewise.report.formulas import law_formula
from nodewise.report.page import strategy_page
from nodewise.report.pages import PAGES
from nodewise.report.pages.strategies import read_diagrams
from nodewise.strategies import STRATEGIES
from rendering import CONFIG, Texts, leads

WORDS = "nw-way__words"  # the class of sentences
SVG = "{http://www.w3.org/2000/svg}"
PICTURES = [
    pytest.param(path, id=f"{name}-{path.stem}")
    for name, strategy in STRATEGIES.items()
    for path in sorted(strategy.folder.glob("diagram*.svg"))
]


def page(docs, strategy):
    return (docs / strategy_page(strategy)).with_suffix(".md").read_text()


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
    assert diagrams and all(title and str(svg) in text for title, svg in diagrams)
    ids = re.findall(r' id="([^"]+)"', section(text, "What happens in a step"))
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    "strategy", [name for name in STRATEGIES if STRATEGIES[name].exchange.law is not None]
)
def test_a_page_shows_the_law_of_the_strategys_exchange(docs, strategy):
    cost = section(page(docs, strategy), "What it costs")
    known = str(law_formula(STRATEGIES[strategy].exchange.law)).split("</p>")[:-1]
    assert all(re.search("<math>.*?</math>", line)[0] in cost for line in known)


# --- the diagrams ---


@pytest.mark.parametrize("picture", PICTURES)
def test_a_diagram_has_a_title_and_says_everything_in_words(picture):
    root = ElementTree.parse(picture).getroot()  # noqa: S314 (a file of the project)
    texts = [*root.iter(f"{SVG}text")]
    title, words = root.find(f"{SVG}title"), root.find(f"{SVG}desc")
    assert root.get("role") == "img"
    assert root.get("aria-labelledby").split() == [title.get("id"), words.get("id")]
    assert title.text
    for text in texts:
        if text.get("class") in ("nw-way__name", "nw-way__label"):
            assert text.text in words.text
    said = " ".join(one.text for one in texts if one.get("class") == WORDS)
    for sentence in re.split(r"(?<=[.:]) (?=[A-Z])", said):
        assert sentence in words.text


@pytest.mark.parametrize("picture", PICTURES)
def test_a_diagram_takes_all_its_colours_from_the_style_sheet(picture):
    style_sheet = Path("site/assets/style.css").read_text()
    known = {*re.findall(r"\.(nw-way__[a-z]+)", style_sheet), None}
    for one in ElementTree.parse(picture).iter():  # noqa: S314 (a file of the project)
        assert one.get("class") in known
        assert not {"style", "fill", "stroke", "color", "href", "onload"} & set(one.keys())
        assert one.tag.removeprefix(SVG) in {"svg", "title", "desc", "path", "rect", "text"}


def test_sent_bytes_stand_beside_those_of_the_formula(docs):
    bytes_ = section(page(docs, "multi_worker_mirrored"), "Bytes that a node sends in a step")
    rows = re.findall(r"<tr><td.*?</tr>", bytes_)
    assert len(rows) == 2  # two and three nodes
    for row in rows:
        payload, sent, formula, ratio = map(float, re.findall(r'<data value="([^"]+)"', row))
        assert sent == pytest.approx(formula, rel=1e-3) and formula >= payload
        assert ratio == pytest.approx(1, rel=1e-3)


def test_strategies_are_compared_by_speed_and_by_the_bytes_of_an_example(docs):
    curves = pd.read_parquet(docs.parent / "tables/curves.parquet")
    counts = (curves["flags"] == "") & (curves["repeats"] >= 3) & (curves["nodes"] > 1)
    best = curves[counts & (curves["strategy"] == "multi_worker_mirrored")]["speedup"].max()
    rows = re.findall(r"<tr><td.*?</tr>", (docs / "strategies/index.md").read_text())
    assert len(rows) == len(STRATEGIES)
    (ring,) = [row for row in rows if "multi-worker-mirrored.html" in row]
    shown = list(map(float, re.findall(r'<data[^>]* value="([^"]+)"', ring)))
    assert shown[0] == pytest.approx(best, rel=1e-4)
    assert 2 * 7 / 8 * 100e6 in shown
    (lead,) = leads((docs / strategy_page("multi_worker_mirrored")).with_suffix(".md"))
    assert f"{best:#.2g} times" in lead


def test_a_strategy_was_faster_somewhere_only_if_its_interval_says_so(docs):
    context = read_context(CONFIG, docs.parent)
    *_, index = PAGES["strategies"](context)
    assert index.context["somewhere"] == 1 and (context.compared["speedup"] > 1).any()
    context.compared["speedup_low"] = 0.9
    *_, index = PAGES["strategies"](context)
    assert index.context["somewhere"] == 0


# --- what was measured ---


def test_observations_are_of_all_workers_together(tmp_path):
    tables = make.tables_of(make.varied(), tmp_path)
    rows = tables["observations"].set_index("observation")
    assert set(rows.index) == {"staleness", "bubble_share", "pause_s", "bytes_counted"}
    assert rows.loc["staleness", "values"] == 2 * 4
    assert rows.loc["staleness", "mean"] == 1 and rows.loc["staleness", "largest"] == 2
    assert rows.loc["bubble_share", "median"] == 0.5


def test_noted_seconds_are_the_node_s_own(tmp_path):
    cluster = {"kind": "emulated", "node": {"cpu": 0.2}, "link": {"rate_mbit": 100}}
    record = make.record(make.cell(n=2, strategy="async_sgd", cluster=cluster))
    record = record.model_copy(update={"kind": "emulated"})
    record = make.noted(record, held_s=[1.0, 3.0], staleness=[5])
    rows = make.tables_of([record], tmp_path)["observations"].set_index("observation")
    assert rows.loc["held_s", "mean"] == pytest.approx(0.4)
    assert rows.loc["staleness", "mean"] == 5
