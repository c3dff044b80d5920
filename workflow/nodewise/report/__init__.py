"""Turn tables of results into what readers see: figures, pages and the site.

Where to find what:

- Figures: each is declared by a module of `figures/`, which also prepares its rows. `figure.py`
  defines what a declaration consists of, `charts.py` makes its charts and their words when a page
  asks for them, and `drawing.py` draws them.
- Pages: each is registered by a module of `pages/`, which makes its context from a `ReportContext`
  (`context.py`). Its template is in `site/templates`. `render.py` writes all pages as Markdown and
  runs MkDocs on them.
- Evidence: `evidence.py` decides which comparisons count, and says what has to be measured if none
  does. `claims.py` uses it to judge the claims of published studies, by the comparisons that they
  declare.
- Markup: only `html.py` and `tables.py` turn numbers, texts and tables into HTML. Titles of names
  are in `context.py`, addresses in `page.py`, colours and shapes in `theme.py`.

A module whose name begins with an underscore is shared by several modules of its folder.
"""
