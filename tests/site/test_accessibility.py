"""Accessibility: the rules that axe-core checks, and whether the keyboard reaches every control."""

import pytest
from axe_playwright_python.sync_playwright import Axe

from browsing import wait_for_charts

# Do not fetch style sheets again: a page that is opened from a folder may not read them.
RULES = {
    "preload": False,
    # Of other results only one example each is returned; otherwise there would be pages of them.
    "resultTypes": ["violations"],
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
}
OF_COLOUR = RULES | {"runOnly": ["color-contrast", "link-in-text-block"]}
# All visible elements that can get the focus; the button to the top appears only while scrolling.
CONTROLS = """() => [...document.querySelectorAll(
  'a[href], button, input, select, textarea, summary, [tabindex]')].filter((one) =>
    one.tabIndex >= 0 && !one.disabled && one.checkVisibility({ visibilityProperty: true })
    && !one.closest('svg, .md-top') && one.getClientRects().length > 0)"""

# The rows of a table are alike, and checking them takes most of axe's time.
FEWER_ROWS = """() => document.querySelectorAll('article tbody tr:nth-child(n + 7)')
  .forEach((row) => row.remove())"""


def barriers(page, rules):
    """Return the violations that axe finds on the page in its current state, as texts."""
    checked = Axe().run(page, options=rules)
    assert "color-contrast" in {one["id"] for one in checked.response["passes"]}
    return [
        f"{one['id']} ({one['impact']}): {node['html'][:160]} {node['failureSummary'][:200]}"
        for one in checked.response["violations"]
        for node in one["nodes"][:3]
    ]


def out_of_reach(page):
    """Return the controls of a page that Tab does not reach; one of each radio group is enough."""
    controls, alone = page.evaluate(
        f"""() => {{
          const all = ({CONTROLS})();
          all.forEach((one, at) => {{ one.dataset.tab = at; }});
          window.reached = new Set();
          addEventListener('focusin', ({{ target }}) => window.reached.add(target.dataset.tab));
          const radios = all.filter((one) => one.type === 'radio');
          const groups = Object.values(Object.groupBy(radios, (one) => one.name));
          const others = new Set(groups.flatMap((group) => group.slice(1)));
          return [all.length, all.filter((one) => !others.has(one)).map((one) => one.dataset.tab)];
        }}"""
    )
    for _ in range(controls + 1):
        page.keyboard.press("Tab")
    return sorted(set(alone) - set(page.evaluate("[...window.reached]")))


@pytest.mark.slow
def test_nobody_is_kept_out_of_any_kind_of_page(watched, of_each_kind):
    """Each page is opened only once, because opening pages takes most of the time."""
    found = {}
    for path in of_each_kind:
        page = watched.open(path)
        page.evaluate("document.querySelector('article details')?.setAttribute('open', '')")
        page.evaluate(FEWER_ROWS)
        found[path, "light"] = barriers(page, RULES)
        found[path, "keyboard"] = out_of_reach(page)
        page.locator("label[title='Switch to dark']").click()
        page.wait_for_selector("body[data-md-color-scheme=slate]")
        wait_for_charts(page)
        page.wait_for_function(
            "document.getAnimations().every((one) => one.playState !== 'running')"
        )
        found[path, "dark"] = barriers(page, OF_COLOUR)
        # The browser remembers the theme for the next page.
        page.locator("label[title='Switch to light']").click()
    assert {where: told for where, told in found.items() if told} == {}
    assert len(found) > 40
