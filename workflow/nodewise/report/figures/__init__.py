"""The figures: tables -> Vega-Lite specifications, data, words and pictures.

One function per figure; `scaling` draws what was measured, `fits` the overhead formulas, `settings`
how links, nodes and inputs compare, `ways` how strategies do, `stacks` the bars of all three,
`models` what models compute and communicate. To add a figure, write its function and call it in
`measured_figures` or `fitted_figures`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

import pandas as pd
from altair.utils.schemapi import debug_mode

from nodewise.core.units import kind_label
from nodewise.models.registry import registry
from nodewise.predict import queries
from nodewise.report import pictures, theme
from nodewise.report.figure import VEGA_LITE, Figure, spec_json
from nodewise.report.figures import calibration, fits, models, scaling, settings, ways
from nodewise.report.output import replaced, write_files
from nodewise.report.theme import MOST_TONES
from nodewise.results.importers import published
from nodewise.results.model_description import read_architectures
from nodewise.results.tables import read_tables

BUNDLE = f"vega-{VEGA_LITE}.js"
THEMES = "themes.js"

_EXPERIMENT = ["experiment", "model", "dataset"]
_WAYS = [*_EXPERIMENT, "batch_per_worker", "kind"]
_LINE = ["experiment", "model", "dataset", "line", "kind"]


def draw_charts(
    tables_dir: Path,
    overhead_dir: Path,
    out_dir: Path,
    calibration_paths: Sequence[Path] = (),
    models_dir: Path | None = None,
) -> list[str]:
    """Draw every figure into `out_dir`; return their names.

    A figure is `NAME.vl.json` (the specification with its data, words and kinds), `NAME.csv` (its
    data) and `NAME.svg` (a picture). Beside them stand the Vega bundle and the light and dark
    settings that draw them in a page.

    Raises:
        UserError: a table is missing or misfit.
        ValueError: two figures have the same name.
    """
    tables, overhead = read_tables(tables_dir), queries.read_overhead(overhead_dir)
    drawn: list[Iterable[Figure]] = [
        measured_figures(tables),
        fitted_figures(tables, overhead),
    ]
    drawn += [calibration.figures(one) for one in queries.read_calibrations(calibration_paths)]
    if models_dir is not None:
        described = read_architectures(models_dir, registry(), set(tables["cells"]["model"]))
        drawn.append(models.figures(described))
    files: dict[str, str] = {}
    names = []
    with debug_mode(False):  # see Figure.spec
        for figure in chain.from_iterable(drawn):
            name, spec = figure.name, figure.spec()
            if name in names:
                raise ValueError(f"two figures have the name {name}")
            names.append(name)
            files |= {f"{name}.vl.json": spec_json(spec), f"{name}.csv": figure.csv()}
            files[f"{name}.svg"] = pictures.draw(spec)
    files |= {BUNDLE: pictures.bundle(), THEMES: _themes()}
    with replaced(out_dir) as folder:
        write_files(folder, files)
    return names


def measured_figures(tables: queries.Tables) -> Iterator[Figure]:
    """Yield every figure of what was measured and published that the tables have data for."""
    curves = tables["curves"]
    compared = _compared(curves)
    times, accuracies, speedups = (
        _without(compared, view)
        for view in (
            queries.training_times(tables),
            queries.accuracies(tables),
            queries.speedups(curves),
        )
    )
    varied = queries.settings(tables)
    short = _short(curves, varied)
    times = _told_apart(times, short)
    yield from (scaling.training_time(*one) for one in _each(times, queries.MODEL))
    yield from (scaling.accuracy(*one) for one in _each(accuracies, queries.MODEL))
    yield from (scaling.improvement(*one) for one in _each(queries.improvements(tables), ["study"]))
    yield from (ways.throughput(*one) for one in _each(queries.ways(curves), _WAYS))
    yield from (ways.parts(*one) for one in _each(queries.way_parts(curves), _WAYS))
    splits = _without(short, queries.step_parts(curves))
    yield from (scaling.step_split(*one) for one in _each(splits, _LINE))
    for one in _each(_without(short, speedups), _LINE):
        yield from (scaling.speedup(*one), scaling.efficiency(*one))
        if one[0].loc[one[0]["nodes"] > 1, "batch_per_worker"].nunique() > 1:
            yield scaling.speedup_by_batch(*one)
    for one in _each(queries.epochs(tables), ["experiment", "model", "dataset", "kind"]):
        yield from (scaling.by_epoch(*one, "loss"), scaling.by_epoch(*one, "accuracy"))
    for one in _each(varied, ["model", "dataset", "nodes"]):
        yield settings.settings(*one)


def fitted_figures(tables: queries.Tables, overhead: queries.Tables) -> Iterator[Figure]:
    """Yield every figure of what was fitted and predicted."""
    curves = tables["curves"]
    compared = _compared(curves)
    kinds = {
        curve: kind_label(source, origin)
        for curve, source, origin in overhead["predictions"][
            ["curve", "source", "data_origin"]
        ].to_numpy()
    }
    told = _without(compared, queries.with_trials(overhead))
    told = queries.with_launches(told, curves)
    close = queries.near(told)
    for rows, of in _each(queries.fit_roles(close), queries.CURVE):
        yield fits.overhead_fit(rows, of, kinds[of["curve"]])
    for rows, of in _each(queries.speedup_roles(close), queries.CURVE):
        yield fits.outlook(rows, of, kinds[of["curve"]])
    for rows, of in _each(queries.reach(told, overhead["optima"]), queries.CURVE):
        yield fits.reach(rows, of, kinds[of["curve"]])
    rates = queries.with_flags(queries.link_rates(_without(compared, overhead["rates"])), curves)
    for rows, of in _each(rates, queries.CURVE):
        yield fits.link_rates(rows, of, kinds[of["curve"]])
    claims = published.read("ntua_figure28")
    for rows, of in _each(queries.mean_savings(overhead["savings"]), ["study"]):
        yield fits.savings(rows, of, claims)


def _compared(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the experiments whose ways of training are compared on a chart of their own."""
    return queries.ways(curves)[_EXPERIMENT].drop_duplicates()


def _short(curves: pd.DataFrame, varied: pd.DataFrame) -> pd.DataFrame:
    """Return the experiments of `varied` on two numbers of nodes at most: no lines of their own."""
    counts = curves.groupby(_EXPERIMENT)["nodes"].nunique()
    short = counts[counts <= 2].reset_index()[_EXPERIMENT]
    return short.merge(varied[_EXPERIMENT].drop_duplicates())


def _told_apart(times: pd.DataFrame, short: pd.DataFrame) -> pd.DataFrame:
    """Return `times` of no more lines than can be told apart, as far as others show the rest.

    Where a model has more of a kind at one batch, those of `short` are left to the chart of
    settings, if any of ours remain.
    """
    at = [*queries.MODEL, "kind", "batch_per_worker"]
    lines = times.drop_duplicates([*at, "cluster", "line", "experiment"]).groupby(at).size()
    many = lines[lines > MOST_TONES].reset_index()[queries.MODEL].drop_duplicates()
    rest = _without(short, times)
    ours = rest.loc[rest["experiment"] != "", queries.MODEL].drop_duplicates()
    crowded = (
        times[queries.MODEL].merge(many.merge(ours), "left", indicator=True)["_merge"] == "both"
    )
    shown: pd.DataFrame = times[~crowded.to_numpy() | times.index.isin(rest.index)]
    return shown


def _without(compared: pd.DataFrame, rows: pd.DataFrame) -> pd.DataFrame:
    """Return `rows` without those of experiments that another chart compares."""
    at = ["experiment", "model"]
    known = rows.merge(compared[at].drop_duplicates().assign(known=True), "left", at)["known"]
    return rows[known.isna().to_numpy()]


def _each(rows: pd.DataFrame, axes: list[str]) -> list[tuple[pd.DataFrame, dict[str, str]]]:
    """Return the rows of each combination of `axes`, and which combination it is."""
    return [
        (part.reset_index(drop=True), {a: str(v) for a, v in zip(axes, key, strict=True) if v})
        for key, part in rows.groupby(axes)
    ]


def _themes() -> str:
    themes = {name: theme.vega_config(dark=name == "dark") for name in ("light", "dark")}
    return f"window.nodewiseThemes = {json.dumps(themes, ensure_ascii=False)};\n"
