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

from nodewise import published, views
from nodewise.architecture import read_architectures
from nodewise.charts import calibration, fits, models, pictures, scaling, settings, theme, ways
from nodewise.charts.figure import VEGA_LITE, Figure, spec_json
from nodewise.charts.theme import MOST_TONES
from nodewise.outputs import replaced, write_files
from nodewise.quantities import kind_label
from nodewise.tables import read_tables

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
    tables, overhead = read_tables(tables_dir), views.read_overhead(overhead_dir)
    drawn: list[Iterable[Figure]] = [
        measured_figures(tables),
        fitted_figures(tables, overhead),
    ]
    drawn += [calibration.figures(one) for one in views.read_calibrations(calibration_paths)]
    if models_dir is not None:
        described = read_architectures(models_dir, set(tables["cells"]["model"]))
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


def measured_figures(tables: views.Tables) -> Iterator[Figure]:
    """Yield every figure of what was measured and published that the tables have data for."""
    curves = tables["curves"]
    compared = _compared(curves)
    times, accuracies, speedups = (
        _without(compared, view)
        for view in (
            views.training_times(tables),
            views.accuracies(tables),
            views.speedups(curves),
        )
    )
    varied = views.settings(tables)
    short = _short(curves, varied)
    times = _told_apart(times, short)
    yield from (scaling.training_time(*one) for one in _each(times, views.MODEL))
    yield from (scaling.accuracy(*one) for one in _each(accuracies, views.MODEL))
    yield from (scaling.improvement(*one) for one in _each(views.improvements(tables), ["study"]))
    yield from (ways.throughput(*one) for one in _each(views.ways(curves), _WAYS))
    yield from (ways.parts(*one) for one in _each(views.way_parts(curves), _WAYS))
    splits = _without(short, views.step_parts(curves))
    yield from (scaling.step_split(*one) for one in _each(splits, _LINE))
    for one in _each(_without(short, speedups), _LINE):
        yield from (scaling.speedup(*one), scaling.efficiency(*one))
        if one[0].loc[one[0]["nodes"] > 1, "batch_per_worker"].nunique() > 1:
            yield scaling.speedup_by_batch(*one)
    for one in _each(views.epochs(tables), ["experiment", "model", "dataset", "kind"]):
        yield from (scaling.by_epoch(*one, "loss"), scaling.by_epoch(*one, "accuracy"))
    for one in _each(varied, ["model", "dataset", "nodes"]):
        yield settings.settings(*one)


def fitted_figures(tables: views.Tables, overhead: views.Tables) -> Iterator[Figure]:
    """Yield every figure of what was fitted and predicted."""
    curves = tables["curves"]
    compared = _compared(curves)
    kinds = {
        curve: kind_label(source, origin)
        for curve, source, origin in overhead["predictions"][
            ["curve", "source", "data_origin"]
        ].to_numpy()
    }
    told = _without(compared, views.with_trials(overhead))
    told = views.with_launches(told, curves)
    close = views.near(told)
    for rows, of in _each(views.fit_roles(close), views.CURVE):
        yield fits.overhead_fit(rows, of, kinds[of["curve"]])
    for rows, of in _each(views.speedup_roles(close), views.CURVE):
        yield fits.outlook(rows, of, kinds[of["curve"]])
    for rows, of in _each(views.reach(told, overhead["optima"]), views.CURVE):
        yield fits.reach(rows, of, kinds[of["curve"]])
    rates = views.with_flags(views.link_rates(_without(compared, overhead["rates"])), curves)
    for rows, of in _each(rates, views.CURVE):
        yield fits.link_rates(rows, of, kinds[of["curve"]])
    claims = published.read("ntua_figure28")
    for rows, of in _each(views.mean_savings(overhead["savings"]), ["study"]):
        yield fits.savings(rows, of, claims)


def _compared(curves: pd.DataFrame) -> pd.DataFrame:
    """Return the experiments whose ways of training are compared on a chart of their own."""
    return views.ways(curves)[_EXPERIMENT].drop_duplicates()


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
    at = [*views.MODEL, "kind", "batch_per_worker"]
    lines = times.drop_duplicates([*at, "cluster", "line", "experiment"]).groupby(at).size()
    many = lines[lines > MOST_TONES].reset_index()[views.MODEL].drop_duplicates()
    rest = _without(short, times)
    ours = rest.loc[rest["experiment"] != "", views.MODEL].drop_duplicates()
    crowded = times[views.MODEL].merge(many.merge(ours), "left", indicator=True)["_merge"] == "both"
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
