"""The pages with answers in a real browser: kinds beside numbers, evidence, links to terms."""


def test_findings_answer_with_charts_and_evidence(watched):
    page = watched.open("findings.html")
    assert page.locator(".nw-lead").count() == 6
    assert page.locator(".nw-figure").count() >= 3
    evidence = page.locator(".nw-links a[href^='curves/']")
    assert evidence.count() >= 1
    evidence.first.click()
    page.wait_for_url("**/curves/**")
    assert page.locator("h1").count() == 1


def test_a_word_leads_to_its_meaning(watched):
    page = watched.open("your-case.html")
    page.locator("a.nw-term", has_text="Transfer-to-compute").first.click()
    page.wait_for_url("**/glossary.html#transfer-to-compute-ratio")
    assert page.locator("dt:target").inner_text() == "Transfer-to-compute ratio"


def test_without_a_comparison_the_page_of_changes_says_how_to_make_one(watched):
    assert (
        "nodewise compare OLD NEW" in watched.open("changes.html").locator("article").inner_text()
    )
