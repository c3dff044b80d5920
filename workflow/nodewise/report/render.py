"""Render the Markdown pages of a study, and build the site from them.

A page consists of a template and a context. The templates are in `site/templates`; those of the
strategies' pages are in the strategies' folders. The contexts are made by the functions in `PAGES`,
and all their texts and numbers are escaped by `html`. Pages that show no numbers of a study are
plain Markdown files in `site/pages` and are copied. MkDocs builds the site from all pages.
"""

import os
import posixpath
import subprocess
import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from urllib.parse import quote
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import jinja2
from markupsafe import Markup

from nodewise.core.errors import UserError
from nodewise.core.folders import replaced, write_files
from nodewise.core.schema import json_text, read_tree
from nodewise.core.units import counted
from nodewise.models.facts import DESCRIPTIONS
from nodewise.report import html
from nodewise.report.charts import Chart, shared_files
from nodewise.report.context import CHANGES_FILE, ReportContext, read_context
from nodewise.report.figures.peers import FILE as PEERS
from nodewise.report.formulas import law_formula, law_source
from nodewise.report.html import slug
from nodewise.report.page import Page, calibration_file, record_file
from nodewise.report.pages import PAGES
from nodewise.report.tables import table_style
from nodewise.results.record import record_json
from nodewise.strategies import STRATEGIES
from nodewise.study.config import read_config

BUILDER = "mkdocs"
"""The program that builds the site from mkdocs.yml: `mkdocs`, or its successor `zensical`."""


def build_study(config: Path) -> None:
    """Render the pages of a study to build/docs as Markdown, and build build/site from them."""
    study, docs = read_config(config), Path("build/docs")
    context = read_context(
        config,
        study.results,
        calibration_paths=study.calibrations(),
        models_dir=DESCRIPTIONS,
        own_models=study.own_descriptions(),
    )
    render_pages(context, study.results, docs)
    build_site(docs, docs.with_name("site"))


def render_pages(
    study: ReportContext, results: Path, out_dir: Path, *, site_dir: Path = Path("site")
) -> None:
    """Write the pages of a study, with their downloads and assets, to `out_dir`.

    Args:
        study: the study, as returned by `read_context`.
        results: the folder of the study's results, as for `read_context`.
        out_dir: the folder that MkDocs reads; it is replaced.
        site_dir: the folder of the templates, plain pages and assets.

    Raises:
        UserError: an input is missing or invalid.
    """
    files = _downloads(study, results)
    files |= _copies(site_dir / "assets", "assets", ["*.*"])
    files |= {path.name: path.read_bytes() for path in sorted((site_dir / "pages").glob("*.md"))}
    shown: dict[str, Chart] = {}
    environment = _environment(site_dir / "templates", shown)
    keywords = read_tree(site_dir / "keywords.yaml")
    files |= {
        page.source: _render(environment, study, page, keywords.get(page.path, ""))
        for pages in PAGES.values()
        for page in pages(study)
    }
    charts = [shared_files(), *(chart.files() for chart in shown.values())]
    files |= {f"charts/{name}": text for each in charts for name, text in each.items()}
    with replaced(out_dir) as folder:
        write_files(folder, files)


def _downloads(study: ReportContext, results: Path) -> dict[str, str | bytes]:
    """Return the files that readers can download, by path in the site.

    These are tables, descriptions of models, records and calibrations.
    """
    records = {record_file(cell_id): record_json(one) for cell_id, one in study.records.items()}
    return {
        **_copies(results / "tables", "tables", [f"{name}.*" for name in study.tables]),
        **_copies(results / "fits", "tables", [f"{name}.*" for name in study.fit_tables]),
        **_copies(results, "tables", [CHANGES_FILE]),
        **_copies(PEERS.parent, "tables", [PEERS.name]),
        **{f"models/{name}.json": json_text(of) for name, of in study.architectures.items()},
        **{calibration_file(one): json_text(one) for one in study.calibrations},
        **records,
        "records.zip": _zipped(records),
    }


def _zipped(files: Mapping[str, str]) -> bytes:
    """Return the files as one ZIP archive; equal files give an equal archive."""
    with BytesIO() as file:
        with ZipFile(file, "w", ZIP_DEFLATED) as archive:
            for name in sorted(files):
                archive.writestr(ZipInfo(name), files[name], ZIP_DEFLATED)
        return file.getvalue()


def _copies(folder: Path, under: str, patterns: Sequence[str]) -> dict[str, bytes]:
    return {
        f"{under}/{path.name}": path.read_bytes()
        for pattern in patterns
        for path in sorted(folder.glob(pattern))
    }


def _environment(templates: Path, shown: dict[str, Chart]) -> jinja2.Environment:
    """Return the environment of the templates. The charts that they show are added to `shown`."""

    def show(chart: Chart) -> str:
        shown[chart.name] = chart
        return ""

    environment = jinja2.Environment(
        loader=jinja2.ChoiceLoader(
            [
                jinja2.FileSystemLoader(templates),
                jinja2.PrefixLoader(  # such as mpi/page.md
                    {name: jinja2.FileSystemLoader(one.folder) for name, one in STRATEGIES.items()}
                ),
            ]
        ),
        autoescape=True,
        finalize=html.text,  # escapes for Markdown, too, unlike autoescape
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals.update(
        badge=html.badge,
        breakable=html.breakable,
        show=show,
        counted=counted,
        data=html.data,
        number=html.number,
        script_json=html.script_json,
        slug=slug,
        law_formula=law_formula,
        law_source=law_source,
        front_matter_text=html.front_matter_text,
        table_style=table_style,
    )
    return environment


def _render(
    environment: jinja2.Environment, study: ReportContext, page: Page, keywords: str
) -> str:
    def url(target: str) -> Markup:
        """Return the address of a file of the site, relative to this page."""
        relative = posixpath.relpath(target, posixpath.dirname(page.path) or ".")
        return Markup(quote(relative))  # noqa: S704 (quoted)

    rendered = environment.get_template(page.template).render(
        url=url,
        title=page.title,
        study_title=study.config.title,
        stand_in=study.tables["cells"]["data_origin"].eq("generated").any(),
        contents=page.contents,
        section=page.section,
        boost=page.boost,
        keywords=keywords,
        figures_on_page=page.figures,
        **page.context,
    )
    return rendered.strip() + "\n"


def build_site(pages: Path, out: Path) -> None:
    """Build the site from the folder `pages` of Markdown, with the settings of mkdocs.yml.

    The build is strict: a warning is an error. The folder `out` is replaced.

    Raises:
        UserError: the builder failed or warned.
        OSError: the site cannot be written.
    """
    with replaced(out) as folder:
        folders = {"DOCS_DIR": os.path.relpath(pages), "SITE_DIR": os.path.relpath(folder)}
        done = subprocess.run(
            [sys.executable, "-m", BUILDER, "build", "--strict"],
            env=os.environ | folders,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line]
            told = [line for line in lines if line.startswith(("WARNING", "ERROR"))] or lines[-1:]
            raise UserError(f"{pages}: {''.join(told[:1]).split(' -  ')[-1]}")
