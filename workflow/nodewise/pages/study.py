"""What the pages of a study are made from, and what a page is."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import pandas as pd
import yaml
from markupsafe import Markup

from nodewise import views
from nodewise.architecture import Architecture, read_architectures
from nodewise.calibration import Calibration, read_calibration
from nodewise.cells import parse_id
from nodewise.config import Config, read_config
from nodewise.datasets.registry import Entry, read_registry
from nodewise.errors import UserError
from nodewise.models import registry
from nodewise.pages.markup import Table, data_table
from nodewise.records import Record, read_record
from nodewise.tables import read_tables

DATASETS = Path("data/datasets.yaml")


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


@dataclass(frozen=True)
class Shown:
    """A figure as a page shows it; its specification holds all its words."""

    name: str
    spec: dict[str, Any]
    csv: str

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
    def inline(self) -> dict[str, Any]:
        """Its specification for a page that brings settings and words of its own."""
        return {key: self.spec[key] for key in self.spec if key not in ("config", "usermeta")}

    @cached_property
    def table(self) -> Table:
        """Its data."""
        return data_table(pd.read_csv(StringIO(self.csv)))


@dataclass(frozen=True)
class Study:
    """A measured study: its configuration, tables, fits, figures and records, and the registries.

    Attributes:
        columns: what the tables hold, for readers: table -> its `row` and its `columns`.
        calibration: that of its emulated cluster, None if there is none.
        architectures: what its models are, by name; a user's own models are not described.
    """

    config: Config
    tables: views.Tables
    overhead: views.Tables
    figures: list[Shown]
    records: dict[str, Record]
    datasets: dict[str, Entry]
    columns: dict[str, dict[str, Any]]
    calibration: Calibration | None
    architectures: dict[str, Architecture]

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The cells, each with its `page` and the `label` of its kind."""
        cells = self.tables["cells"]
        pages = [f"cells/{_checked_id(cell_id)}.html" for cell_id in cells["cell_id"]]
        return views.with_labels(cells).assign(page=pages)

    @cached_property
    def step_times(self) -> dict[str, pd.Series]:
        """The step times of each cell, by cell id."""
        grouped = self.tables["steps"].groupby("cell_id")["step_time_s"]
        return {str(cell_id): seconds.reset_index(drop=True) for cell_id, seconds in grouped}

    @cached_property
    def epochs(self) -> dict[str, pd.DataFrame]:
        """The epochs of each cell, by cell id."""
        return {str(cell_id): rows for cell_id, rows in self.tables["epochs"].groupby("cell_id")}

    @property
    def stand_in(self) -> bool:
        """Whether any cell trained on a generated stand-in."""
        return bool((self.tables["cells"]["data_origin"] == "generated").any())

    def pick(self, *figures: str, **of: str) -> list[Shown]:
        """Return the figures of these names, in that order, whose axes are as given."""
        return [
            shown
            for name in figures
            for shown in self.figures
            if shown.figure == name and all(shown.of.get(key) == of[key] for key in of)
        ]

    def model_title(self, model: str) -> str:
        """Return the title of a model, or its name if it is not one of ours."""
        return registry()[model].title if model in registry() else model

    def dataset_title(self, dataset: str) -> str:
        """Return the title of a dataset; where a user's own comes from."""
        if dataset in self.datasets:
            return self.datasets[dataset].title
        loads = [r.cell.load for r in self.records.values() if r.cell.dataset == dataset]
        return f"Own data, {loads[0]}" if loads and loads[0] else dataset


def read_study(
    config_path: Path,
    *,
    tables_dir: Path,
    overhead_dir: Path,
    charts_dir: Path,
    records_dir: Path,
    columns_path: Path,
    calibration_path: Path | None,
    models_dir: Path | None = None,
) -> Study:
    """Read everything that pages are made from.

    Raises:
        UserError: a file is missing or misfit, or a cell has no record.
    """
    tables = read_tables(tables_dir)
    trained = set(tables["cells"]["model"])
    study = Study(
        config=read_config(config_path),
        tables=tables,
        overhead=views.read_overhead(overhead_dir),
        figures=[_read_figure(path) for path in sorted(charts_dir.glob("*.vl.json"))],
        records=_read_records(records_dir),
        datasets=read_registry(DATASETS),
        columns=yaml.safe_load(columns_path.read_text(encoding="utf-8")),
        calibration=read_calibration(calibration_path) if calibration_path else None,
        architectures=read_architectures(models_dir, trained) if models_dir else {},
    )
    missing = sorted(set(study.cells["cell_id"]) - set(study.records))
    if missing:
        raise UserError(f"{records_dir}: there is no record of the cell {missing[0]}")
    return study


def slug(name: str) -> Markup:
    """Return `name` as a part of an address or an anchor: small letters, digits and hyphens."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"
    return Markup(plain)  # noqa: S704 (no character of it means anything)


def _read_figure(path: Path) -> Shown:
    name = path.name.removesuffix(".vl.json")
    csv = path.with_name(f"{name}.csv").read_text(encoding="utf-8")
    return Shown(name, json.loads(path.read_text(encoding="utf-8")), csv)


def _read_records(records_dir: Path) -> dict[str, Record]:
    records = [read_record(path) for path in sorted(records_dir.rglob("*.json"))]
    return {record.cell.id: record for record in records}


def _checked_id(cell_id: str) -> str:
    """Return `cell_id`, which becomes a path: it must have the form of one."""
    try:
        parse_id(cell_id)
    except ValueError as error:
        raise UserError(f"the cells table: {error}") from error
    return cell_id
