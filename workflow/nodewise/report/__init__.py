"""What readers see: figures, pages, the site.

Where what is decided, and what to read first:

- A figure: a module of `figures/` registers it; its `title` and the `alt` text are written there.
  What it shows, in a sentence that becomes its title, is decided in `figures/_findings.py`, and
  `figure.py` puts a chart and its words together. `draw.py` writes the files of all figures, and
  `page_figure.py` reads them for pages.
- A page: a module of `pages/` registers it and makes its context from a `ReportContext`
  (`context.py`); its template is in `site/templates`. `render.py` writes all pages, and `site.py`
  has MkDocs build the site of them.
- An answer of the page Findings: a module of `answers/` registers it; `finding.py` has what it is.
- A sentence of evidence: `evidence.py` is the rule that says which comparisons count, and what it
  takes where none does. `claims.py` gives each claim of a study its verdict by it, after a rule of
  `claim_rules/` has compared.
- Numbers, texts and tables become markup in `html.py` and `tables.py` only. Titles for names are in
  `titles.py`, addresses in `addresses.py`, colours and shapes in `theme.py`.

A module with an underscore before its name has what several modules of its folder share.
"""
