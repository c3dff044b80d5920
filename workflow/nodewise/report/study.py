"""What the pages of a study are made from, and what a page is."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pandas as pd
from markupsafe import Markup

from nodewise.core.cell import Cell, parse_id
from nodewise.core.errors import UserError
from nodewise.core.schema import read_tree
from nodewise.core.units import base_kind, counted
from nodewise.data.registry import Entry, read_registry
from nodewise.models.registry import registry, title_of
from nodewise.predict import queries
from nodewise.report.html import Row, Table, data_table, script_json, text
from nodewise.results.calibration import Calibration
from nodewise.results.compare_runs import read_changes
from nodewise.results.model_description import Architecture, read_architectures
from nodewise.results.record import Record, read_record
from nodewise.results.tables import read_tables
from nodewise.strategies import STRATEGIES
from nodewise.study.config import Config, read_config

CONFIGS = Path("config")
DATASETS = Path("data/datasets.yaml")
CHANGES = "changes.csv"  # beside the folder of the tables

# what readers filter a page's figures by: name -> the axes and columns that say it
_FILTERS = {
    "model": ("model",),
    "strategy": ("strategy", "line"),
    "batch": ("batch_per_worker",),
    "nodes": ("nodes",),
}
# what the list of cells is filtered by -> the axis that says it; the kinds of what cells measured
_CELLS = {
    **{axis: axis for axis in ("experiment", "model", "strategy")},
    "batch": "batch_per_worker",
}
_SIZE = re.compile(r'<svg [^>]*?width="(\d+)[\d.]*" height="(\d+)')
_OURS = {"measured", "emulated", "emulated soft"}


@dataclass(frozen=True)
class Page:
    """One page: its path in the site (`….html`), its template, its title, and what it says.

    `figures` tells whether it needs the scripts of charts, `contents` whether it has a table of
    contents.
    """

    path: str
    template: str
    title: str
    context: Mapping[str, Any]
    figures: bool = False
    contents: bool = True

    @property
    def source(self) -> str:
        """The Markdown file that is written for it."""
        return f"{self.path.removesuffix('.html')}.md"


@dataclass(frozen=True)
class Shown:
    """A figure as a page shows it; its specification holds all its words.

    `width` and `height` are those of its picture, in pixels.
    """

    name: str
    spec: dict[str, Any]
    csv: str
    width: int
    height: int

    @property
    def figure(self) -> str:
        """Which figure it is, such as `time`."""
        return str(self.spec["usermeta"]["figure"])

    @property
    def of(self) -> dict[str, str]:
        """The axes that its data share."""
        return dict(self.spec["usermeta"]["of"])

    @property
    def kinds(self) -> list[str]:
        """The kinds of the numbers it shows."""
        return list(self.spec["usermeta"]["kinds"])

    @property
    def caption(self) -> str:
        """How to read it."""
        return str(self.spec["usermeta"]["caption"])

    @property
    def alt(self) -> str:
        """The picture in words."""
        return str(self.spec["description"])

    @property
    def views(self) -> list[str]:
        """The ways to look at its values, by name."""
        return [view["name"] for view in self.spec["usermeta"]["views"]]

    @property
    def cells(self) -> str:
        """The query of the list of cells that shows those it is of; empty if they are not ours."""
        of = {name: self.of[axis] for name, axis in _CELLS.items() if axis in self.of}
        return urlencode(of) if "model" in of and _OURS & {*map(base_kind, self.kinds)} else ""

    @property
    def script(self) -> str:
        """A script that hands its specification to a page that has settings and words already."""
        about = {key: self.spec["usermeta"][key] for key in ("axis", "views")}
        spec = {key: self.spec[key] for key in self.spec if key not in ("config", "description")}
        spec |= {"usermeta": about}
        return f"(window.nodewiseCharts ??= {{}})[{script_json(self.name)}]={script_json(spec)};\n"

    @cached_property
    def data(self) -> pd.DataFrame:
        """What it draws."""
        return pd.read_csv(StringIO(self.csv))

    @cached_property
    def table(self) -> Table:
        """Its data, as far as they say something: its words say what all rows share."""
        shown = self.data.drop(columns="cell_id", errors="ignore").dropna(axis=1, how="all")
        words = shown.select_dtypes(exclude="number")
        same = [name for name in words if len(shown) > 1 and words[name].nunique(dropna=False) == 1]
        return data_table(shown.drop(columns=same))

    @cached_property
    def filters(self) -> dict[str, str]:
        """What it can be filtered by: name -> the values, separated by `|`."""
        found = {name: self._values(axes) for name, axes in _FILTERS.items()}
        return {name: "|".join(values) for name, values in found.items() if values}

    def _values(self, axes: Iterable[str]) -> list[str]:
        """Return the values of `axes`; what is published is compared with, whatever is chosen."""
        shared = [self.of[axis] for axis in axes if axis in self.of]
        rows = [self.data[axis].unique() for axis in axes if axis in self.data]
        values = dict.fromkeys([*shared, *(str(value) for part in rows for value in part)])
        return [value for value in values if value != "published"]


@dataclass(frozen=True)
class Study:
    """A measured study: all that its pages are made from.

    Attributes:
        columns: what the tables hold, for readers: table -> its `row` and its `columns`.
        calibrations: those of its emulated clusters.
        architectures: what its models are, by name; a user's own models are not described.
        changes: what `nodewise compare` wrote of it; without rows if nothing was compared.
    """

    config: Config
    tables: queries.Tables
    records: Mapping[str, Record]
    datasets: dict[str, Entry]
    overhead: queries.Tables
    figures: list[Shown]
    columns: dict[str, dict[str, Any]]
    calibrations: list[Calibration]
    architectures: dict[str, Architecture]
    changes: pd.DataFrame

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The cells, each with its `page` and the `label` of its kind."""
        cells = self.tables["cells"]
        pages = [f"cells/{_checked_id(cell_id)}.html" for cell_id in cells["cell_id"]]
        return queries.with_labels(cells).assign(page=pages)

    @cached_property
    def step_times(self) -> dict[str, pd.Series]:
        """The step times of each cell, by cell id."""
        grouped = self.tables["steps"].groupby("cell_id")["step_time_s"]
        return {str(cell_id): seconds.reset_index(drop=True) for cell_id, seconds in grouped}

    @cached_property
    def epochs(self) -> dict[str, list[Row]]:
        """The epochs of each cell, by cell id."""
        epochs: dict[str, list[Row]] = {}
        for row in self.tables["epochs"].to_dict("records"):
            epochs.setdefault(row["cell_id"], []).append(row)
        return epochs

    @cached_property
    def stand_in(self) -> bool:
        """Whether any cell trained on a generated stand-in."""
        return bool((self.tables["cells"]["data_origin"] == "generated").any())

    @cached_property
    def experiment_titles(self) -> dict[str, str]:
        """The titles of experiments, by name.

        Records of studies measured before have theirs in the configuration that their folder is
        named after, if that is still there; one that is misfit is a `UserError`.
        """
        configs = [CONFIGS / f"{Path(folder).name}.yaml" for folder in self.config.records]
        read = [read_config(path) for path in configs if path.is_file()]
        return {
            name: one.title for of in (*read, self.config) for name, one in of.experiments.items()
        }

    def model_title(self, model: str) -> str:
        """Return the title of a model, or its name if it is not one of ours."""
        return title_of(model)

    def strategy_title(self, name: str) -> str:
        """Return what a sentence calls a strategy; of a study's own variant, its setting, too.

        What follows a comma in a title is a detail that a sentence can spare.
        """
        if name in STRATEGIES:
            return STRATEGIES[name].short_title
        cells = self.tables["cells"]
        of = cells.loc[cells["strategy"] == name, "cell_id"]
        if of.empty:
            return name
        return trained_by(self.records[of.iloc[0]].cell)

    def named_strategy(self, name: str) -> Markup:
        """Return a strategy for a table: its title, and below it its name."""
        return Markup('{}<span class="nw-range">{}</span>').format(
            text(self.strategy_title(name)), text(name)
        )

    def dataset_title(self, dataset: str) -> str:
        """Return the title of a dataset; where a user's own comes from."""
        if dataset in self.datasets:
            return self.datasets[dataset].title
        loads = [r.cell.load for r in self.records.values() if r.cell.dataset == dataset]
        return f"Own data, {loads[0]}" if loads and loads[0] else dataset

    def pick(self, *figures: str, **of: str) -> list[Shown]:
        """Return the figures of these names, in that order, whose axes are as given."""
        return [
            shown
            for name in figures
            for shown in self.figures
            if shown.figure == name and all(shown.of.get(key) == of[key] for key in of)
        ]

    def point(self, row: "pd.Series[Any]", *, batch: bool = True) -> Markup:
        """Return a point on several nodes in words, with its batch if asked to.

        What emulated nodes are belongs to it: over another link it is another point.
        """
        line = self.strategy_title(row["line"] if "line" in row else row["strategy"])
        model = text(self.model_title(row["model"]))
        nodes = f"{row['nodes']} nodes"
        if row["label"].startswith("emulated"):
            nodes += f" of {row['cluster']}"
        said = Markup("{} on {} by {}").format(model, text(nodes), text(line))
        if not batch:
            return said
        examples = Markup(" with {} examples per worker and step")
        return said + examples.format(row["batch_per_worker"])


def read_study(
    config_path: Path,
    *,
    tables_dir: Path,
    overhead_dir: Path,
    charts_dir: Path,
    records_dir: Path,
    columns_path: Path,
    calibration_paths: Sequence[Path] = (),
    models_dir: Path | None = None,
) -> Study:
    """Read everything that pages are made from.

    Raises:
        UserError: a file is missing or misfit, or a cell has no record.
    """
    config, tables = read_config(config_path), read_tables(tables_dir)
    folders = [Path(folder) for folder in config.records] or [records_dir]
    trained = set(tables["cells"]["model"])
    return Study(
        config=config,
        tables=tables,
        records=_Records([*tables["cells"]["cell_id"]], folders),
        datasets=read_registry(DATASETS),
        overhead=queries.read_overhead(overhead_dir),
        figures=[read_figure(path) for path in sorted(charts_dir.glob("*.vl.json"))],
        columns=read_tree(columns_path),
        calibrations=queries.read_calibrations(calibration_paths),
        architectures=read_architectures(models_dir, registry(), trained) if models_dir else {},
        changes=read_changes(tables_dir.parent / CHANGES),
    )


def read_figure(path: Path) -> Shown:
    """Read a figure by its specification, which its data and its picture stand beside.

    Raises:
        UserError: the picture is none.
    """
    name = path.name.removesuffix(".vl.json")
    csv = path.with_name(f"{name}.csv").read_text(encoding="utf-8")
    picture = path.with_name(f"{name}.svg")
    size = _SIZE.search(picture.read_text(encoding="utf-8") if picture.is_file() else "")
    if not size:
        raise UserError(f"{picture}: is no picture of a chart; draw it again")
    spec = json.loads(path.read_text(encoding="utf-8"))
    return Shown(name, spec, csv, int(size[1]), int(size[2]))


def trained_by(cell: Cell) -> str:
    """Return what a sentence calls the strategy of a cell; of a variant, its setting, too."""
    strategy = STRATEGIES[cell.strategy]
    if cell.strategy_name == cell.strategy:
        return strategy.short_title
    said = setting(strategy.exchange_of(cell.options), cell.options) or cell.strategy_name
    return f"{strategy.short_title} ({said})"


def setting(exchange: str, options: Mapping[str, Any]) -> str:
    """Return in words what the options of a cell say about how it exchanges; empty if nothing."""
    if exchange == "averaging":
        period = options["period"]
        return {1: "every step", "epoch": "every epoch"}.get(period, f"every {period} steps")
    if exchange == "server":
        return _staleness_control(options)
    if exchange == "all-gather":
        return _codec(options)
    return str(options.get("collective", ""))


def _staleness_control(options: Mapping[str, Any]) -> str:
    bound, updates = options.get("bound"), options.get("updates")
    said = [
        f"at most {counted(bound, 'step')} ahead of the slowest worker"
        if bound is not None
        else "",
        f"{counted(updates, 'gradient')} per update" if updates else "",
        "stale gradients count less" if options.get("scale_by_staleness") else "",
    ]
    return ", ".join(filter(None, said))


def _codec(options: Mapping[str, Any]) -> str:
    if options["method"] == "threshold":
        return f"entries beyond ±{options['threshold']:g}, sign only"
    if options["method"] == "top_k":
        return f"the largest {100 * options['share']:g}\u00a0% of the entries"
    return "half precision" if options["method"] == "float16" else str(options["method"])


def slug(name: str) -> Markup:
    """Return `name` as a part of an address or an anchor: small letters, digits and hyphens."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"
    return Markup(plain)  # noqa: S704 (no character of it means anything)


class _Records(Mapping[str, Record]):
    """The records of cells, by cell id; each is read when it is first asked for."""

    def __init__(self, cell_ids: Sequence[str], folders: Sequence[Path]) -> None:
        self._folders = folders
        self._records: dict[str, Record | None] = dict.fromkeys(cell_ids)

    def __getitem__(self, cell_id: str) -> Record:
        """Return the record of a cell, from the first folder that has it.

        Raises:
            UserError: there is none.
        """
        record = self._records[cell_id]
        if record is None:
            record = self._records[cell_id] = self._read(cell_id)
        return record

    def _read(self, cell_id: str) -> Record:
        name = f"{_checked_id(cell_id)}.json"
        for folder in self._folders:
            if (folder / name).is_file():
                return read_record(folder / name)
        raise UserError(f"there is no record of the cell {cell_id}; make the tables again")

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


def _checked_id(cell_id: str) -> str:
    """Return `cell_id`, which becomes a path: it must have the form of one."""
    try:
        parse_id(cell_id)
    except ValueError as error:
        raise UserError(f"the cells table: {error}") from error
    return cell_id
