"""Draw all figures of a study and write their files."""

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import Any

import vl_convert
from altair.utils.schemapi import debug_mode

from nodewise.core.folders import replaced, write_files
from nodewise.models.facts import read_all_facts
from nodewise.predict.study import read_overhead
from nodewise.report import theme
from nodewise.report.figure import VEGA_LITE, spec_json
from nodewise.report.figures import ALL_REDUCES, MODELS, draw_figures
from nodewise.report.figures.calibration import all_reduce_times
from nodewise.report.figures.models import sizes
from nodewise.report.titles import experiment_titles, named_variants
from nodewise.results.calibration import read_calibrations
from nodewise.results.table_files import read_tables
from nodewise.study.config import read_config

BUNDLE = "vega.js"
THEMES = "themes.js"
_TITLE_LETTER, _SUBTITLE_LETTER = 9.6, 7.2  # widths of a letter in pixels, as in charts.js


def draw_charts(
    tables_dir: Path,
    overhead_dir: Path,
    out_dir: Path,
    *,
    config_path: Path,
    calibration_paths: Sequence[Path] = (),
    models_dir: Path | None = None,
    own_models: Mapping[str, Path] | None = None,
) -> list[str]:
    """Draw every figure into `out_dir` and return the figures' names.

    Three files are written for each figure: `NAME.vl.json` (the specification with its data, words
    and kinds of numbers), `NAME.csv` (its data) and `NAME.svg` (a picture). The Vega bundle and the
    light and dark settings, with which pages draw the figures, are written to the same folder.

    Args:
        tables_dir: the folder that `write_tables` wrote.
        overhead_dir: the folder that `nodewise fit-overhead` wrote.
        out_dir: the folder to write; it is replaced.
        config_path: the study's configuration, which has the titles of its experiments.
        calibration_paths: the files that `nodewise calibrate` wrote.
        models_dir: the folder of the descriptions of the project's models, as written by
            `nodewise describe-model`.
        own_models: the descriptions of users' own models, by the names that the study gives them.

    Raises:
        UserError: a table is missing or invalid.
        ValueError: two figures have the same name.
    """
    tables = read_tables(tables_dir) | read_overhead(overhead_dir)
    tables[ALL_REDUCES] = all_reduce_times(read_calibrations(calibration_paths))
    if models_dir is not None:
        trained = set(tables["cells"]["model"])
        tables[MODELS] = sizes(read_all_facts(models_dir, trained, own_models or {}))
    config = read_config(config_path)
    files: dict[str, str] = {}
    names: list[str] = []
    drawn = draw_figures(tables, experiment_titles(config), named_variants(config))
    with debug_mode(False):  # see Figure.spec
        for figure in drawn:
            name, spec = figure.name, figure.spec()
            if name in names:
                raise ValueError(f"two figures have the name {name}")
            names.append(name)
            files |= {f"{name}.vl.json": spec_json(spec), f"{name}.csv": figure.csv()}
            files[f"{name}.svg"] = _picture(spec)
    files |= {BUNDLE: _bundle(), THEMES: _themes()}
    with replaced(out_dir) as folder:
        write_files(folder, files)
    return names


def _themes() -> str:
    themes = {name: theme.vega_config(dark=name == "dark") for name in ("light", "dark")}
    return f"window.nodewiseThemes = {json.dumps(themes, ensure_ascii=False)};\n"


@cache  # building it takes longer than drawing all charts of a small study
def _bundle() -> str:
    """Return Vega, Vega-Lite and vega-embed as one script.

    Its only global name is `vegaEmbed`.
    """
    script = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=VEGA_LITE)
    return f"(() => {{{script}\n}})();\n"


def _picture(spec: dict[str, Any]) -> str:
    """Render a specification as SVG, with a fixed size on a white background."""
    title = {
        "text": wrap(spec["title"]["text"], int(theme.WIDTH / _TITLE_LETTER)),
        "subtitle": wrap(spec["title"]["subtitle"], int(theme.WIDTH / _SUBTITLE_LETTER)),
    }
    alone = spec | {"width": theme.WIDTH, "background": "white", "title": title}
    # pages describe the picture in words, so descriptions of single marks (ARIA) are not needed
    alone["config"] = spec["config"] | {"background": "white", "aria": False}
    svg: str = vl_convert.vegalite_to_svg(json.dumps(alone), vl_version=VEGA_LITE)
    return svg
