"""Nobody is kept out: what axe-core checks by itself, and every control by keyboard alone."""

import pytest
from axe_playwright_python.sync_playwright import Axe
from conftest import ODD_CELL

# style sheets are not fetched again: a page from a folder may not read them
RULES = {
    "preload": False,
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
OF_COLOUR = {"preload": False, "runOnly": ["color-contrast", "link-in-text-block"]}
BARRIERS = ("serious", "critical")
FOLDERS = ("cells", "fit", "models", "results", "strategies", "studies")
LIGHT, DARK = {"color_scheme": "light"}, {"color_scheme": "dark"}
# what can be focused and is shown; the way to the top comes and goes while one scrolls
CONTROLS = """() => [...document.querySelectorAll(
  'a[href], button, input, select, textarea, summary, [tabindex]')].filter((one) =>
    one.tabIndex >= 0 && !one.disabled && one.checkVisibility({ visibilityProperty: true })
    && !one.closest('svg, .md-top') && one.getClientRects().length > 0)"""


@pytest.fixture(scope="session")
def of_each_kind(site, html):
    """Return the pages that stand alone, and of the pages of each folder the largest."""
    alone = [path for path in html if "/" not in path or path.endswith("/index.html")]
    chosen = [path for path in alone if path != "404.html"]
    for folder in FOLDERS:
        members = [path for path in html if path.startswith(f"{folder}/") and path not in alone]
        chosen.append(max(members, key=lambda path: (site / path).stat().st_size))
    return [*chosen, ODD_CELL]


@pytest.mark.parametrize(
    ("watched", "rules"),
    [(LIGHT, RULES), (DARK, OF_COLOUR)],
    indirect=["watched"],
    ids=["light", "dark"],
)
def test_axe_finds_no_barrier_on_any_kind_of_page(watched, of_each_kind, rules):
    found = {}
    for path in of_each_kind:
        page = watched.open(path)
        page.evaluate("document.querySelector('article details')?.setAttribute('open', '')")
        checked = Axe().run(page, options=rules)
        assert "color-contrast" in {one["id"] for one in checked.response["passes"]}, path
        barriers = [
            f"{one['id']} ({one['impact']}): {node['html'][:160]} {node['failureSummary'][:200]}"
            for one in checked.response["violations"]
            if one["impact"] in BARRIERS
            for node in one["nodes"][:3]
        ]
        if barriers:
            found[path] = barriers
    assert found == {}


def test_the_check_finds_a_barrier_where_one_is(watched):
    page = watched.open("glossary.html")
    page.evaluate(
        """() => document.querySelector('article').insertAdjacentHTML('beforeend',
          '<input type="text"><p style="color: #ccc; background: #fff">pale</p>')"""
    )
    found = {one["id"] for one in Axe().run(page, options=RULES).response["violations"]}
    assert {"label", "color-contrast"} <= found


def test_the_keyboard_reaches_every_control_of_every_kind_of_page(watched, of_each_kind):
    for path in of_each_kind:
        page = watched.open(path)
        page.evaluate(f"({CONTROLS})().forEach((one, at) => {{ one.dataset.tab = at }})")
        wanted = set(page.locator("[data-tab]").evaluate_all("(l) => l.map((o) => o.dataset.tab)"))
        groups = page.evaluate(
            """() => Object.values(Object.groupBy(
              [...document.querySelectorAll('input[type=radio][data-tab]')], (one) => one.name
            )).flatMap((all) => all.slice(1).map((one) => one.dataset.tab))"""
        )
        reached = set()
        for _ in range(len(wanted) + 1):
            page.keyboard.press("Tab")
            at = page.evaluate("document.activeElement.dataset.tab ?? null")
            reached.add(at)
        missed = wanted - reached - set(groups)
        assert not missed, (path, sorted(missed))
