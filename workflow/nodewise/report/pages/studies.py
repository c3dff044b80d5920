"""Make the pages of published studies that are reproduced: one for each, and the list of them."""

from collections import Counter
from collections.abc import Iterator
from itertools import chain

from nodewise.report.claims_table import claims_table
from nodewise.report.context import ReportContext
from nodewise.report.page import Page
from nodewise.report.pages import _ntua, _published_runs, _survey, page


@page("studies")
def pages(study: ReportContext) -> Iterator[Page]:
    """Yield a page per published study, and the page that lists them."""
    listed: list[dict[str, object]] = []
    of_studies = (_ntua.page(study), _published_runs.pages(study), _survey.page(study))
    for one, counts in chain.from_iterable(of_studies):
        listed.append({"page": one.path, "title": one.title, **counts})
        yield one
    verdicts = Counter(one.verdict for one in study.claims)
    context = {"studies": listed, "claims": claims_table(study), "verdicts": verdicts}
    yield Page("studies/index.html", "studies/index.md.j2", "Studies", context, contents=False)
