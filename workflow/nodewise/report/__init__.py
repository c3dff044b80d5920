"""Turn tables of results into what readers see: figures, pages and the site.

Where to find what:

- Figures: each is registered by a module of `figures/`, which also writes its `title` and its `alt`
  text. `figures/_findings.py` writes the sentence that states what a figure shows and becomes its
  title. `figure.py` combines a chart with its words. `draw.py` writes the files of all figures, and
  `page_figure.py` reads them back for the pages.
- Pages: each is registered by a module of `pages/`, which makes its context from a `ReportContext`
  (`context.py`). Its template is in `site/templates`. `render.py` writes all pages as Markdown, and
  `site.py` runs MkDocs on them.
- Answers of the page Findings: each is registered by a module of `answers/`. `finding.py` defines
  what an answer consists of.
- Evidence: `evidence.py` decides which comparisons count, and says what has to be measured if none
  does. `claims.py` uses it to judge the claims of published studies, from comparisons that the
  rules in `claim_rules/` make.
- Markup: only `html.py` and `tables.py` turn numbers, texts and tables into HTML. Titles of names
  are in `titles.py`, addresses in `addresses.py`, colours and shapes in `theme.py`.

A module whose name begins with an underscore is shared by several modules of its folder.
"""
