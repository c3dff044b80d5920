"""Read everything that the pages of a study need."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from nodewise.core.cell import Cell, node_in_words
from nodewise.core.errors import UserError
from nodewise.data.registry import Entry, read_registry
from nodewise.models.facts import read_all_facts
from nodewise.models.registry import title_of
from nodewise.predict.fit_file import FitFile, read_fit
from nodewise.report import evidence
from nodewise.report.charts import Chart, charts_of
from nodewise.report.claims import Judged, judge_claims
from nodewise.report.figures import FIGURES
from nodewise.report.page import curve_page, record_file
from nodewise.results import comparisons, queries
from nodewise.results.calibration import Calibration, read_calibrations
from nodewise.results.columns import FIT_COLUMNS
from nodewise.results.compare_runs import read_changes
from nodewise.results.model_description import Architecture
from nodewise.results.record import Record, read_record
from nodewise.results.table_files import read_tables
from nodewise.strategies import STRATEGIES
from nodewise.study.config import DATASETS, Config, read_config

CHANGES_FILE = "changes.csv"


@dataclass(frozen=True)
class ReportContext:
    """A measured study with everything that its pages need.

    Attributes:
        config: the study's configuration.
        tables: the tables of results, by name.
        records: the record of each cell, by cell id.
        datasets: the registered datasets, by name.
        fit_tables: the tables of the fits, by name.
        fits: the fits that `fit_tables` were made from, with their draws.
        calibrations: the calibrations of the study's clusters.
        architectures: the descriptions of the study's models, by model.
        changes: the table that `nodewise compare` wrote; it has no rows if no runs were compared.
    """

    config: Config
    tables: queries.Tables
    records: Mapping[str, Record]
    datasets: dict[str, Entry]
    fit_tables: queries.Tables
    fits: FitFile
    calibrations: list[Calibration]
    architectures: dict[str, Architecture]
    changes: pd.DataFrame

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The table of cells, with columns added.

        `trained_with` is the registered strategy; `strategy` may be a study's own name for it.
        `page` is the address of the curve's page, `record` that of the cell's record, `machine` its
        processor, and `label` the kind of its numbers.
        """
        cells = self.tables["cells"]
        registered = [self.records[cell].cell.strategy for cell in cells["cell_id"]]
        return queries.with_labels(cells).assign(
            trained_with=pd.Series(registered, cells.index, "str"),
            page=list(map(curve_page, cells["model"], registered)),
            record=list(map(record_file, cells["cell_id"])),
        )

    @cached_property
    def curve_pages(self) -> dict[str, str]:
        """The address of the page of each cell's curve, by cell id."""
        return dict(zip(self.cells["cell_id"], self.cells["page"], strict=True))

    @cached_property
    def points(self) -> pd.DataFrame:
        """All points, with the kinds of their numbers and the column `lacks`; see `compared`."""
        return evidence.check_times(queries.with_labels(self.tables["curves"]), self.tables)

    @cached_property
    def compared(self) -> pd.DataFrame:
        """All points on several nodes beside one node, from `comparisons.on_several_nodes`.

        The column `lacks` says what each lacks to count as evidence; it is empty if it counts.
        """
        rows = comparisons.on_several_nodes(self.tables["curves"])
        return evidence.check_times(rows, self.tables, other="_one")

    @cached_property
    def claims(self) -> list[Judged]:
        """The claims of the published studies, judged by the tables."""
        return judge_claims(self.tables, self.fit_tables)

    # --- titles ---

    @cached_property
    def _experiments(self) -> dict[str, tuple[str, str]]:
        """The title of each experiment by name, and the file that has it if it is not the study's.

        Those of records that were measured earlier are from the configuration that the folder of
        these records is named after, if that configuration still exists.
        """
        files = {str(file): read_config(file) for file in self.config.earlier_configs()}
        experiments = [(file, of.experiments) for file, of in [*files.items(), ("", self.config)]]
        return {name: (one.title, file) for file, of in experiments for name, one in of.items()}

    def experiment_title(self, name: str) -> str:
        """Return the title of an experiment, or its name if no configuration has it."""
        return self._experiments.get(name, (name, ""))[0]

    def experiment_file(self, name: str) -> str:
        """Return the existing configuration of an experiment that was measured earlier, or ''."""
        return self._experiments.get(name, (name, ""))[1]

    def model_title(self, model: str) -> str:
        """Return the title of a model, or its name if it is not one of ours."""
        return title_of(model)

    @cached_property
    def _strategy_titles(self) -> dict[str, str]:
        """The titles of strategies by name, also of a study's own variants."""
        titles = {name: one.short_title for name, one in STRATEGIES.items()}
        return titles | {
            cell.variant: f"{titles[cell.strategy]} ({title_of_variant(cell)})"
            for cell in (one.cell for one in self.records.values())
            if cell.variant
        }

    def strategy_title(self, name: str) -> str:
        """Return the title of a strategy, for a study's own variant with its setting.

        A name that is not known is returned as it is.
        """
        return self._strategy_titles.get(name, name)

    def dataset_title(self, dataset: str) -> str:
        """Return the title of a dataset; for a user's own dataset, say how it is loaded."""
        if dataset in self.datasets:
            return self.datasets[dataset].title
        loads = [r.cell.load for r in self.records.values() if r.cell.dataset == dataset]
        return f"Own data, {loads[0]}" if loads and loads[0] else dataset

    @property
    def words(self) -> dict[str, Callable[[str], str]]:
        """For each column of names, the function that returns the title of a name."""
        return {
            "model": self.model_title,
            "strategy": self.strategy_title,
            "line": self.strategy_title,
            "cluster": node_in_words,
        }

    def with_titles(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return `rows` with names replaced by titles, in every column that has names.

        In the column `experiment`, a text may name several experiments; each name is replaced.
        Rows with a `cell_id` also get `page`, the address of the page of the cell's curve.
        """
        words = {**self.words, "experiment": self._experiments_in_words}
        titles = {
            name: rows[name].map(word, na_action="ignore")
            for name, word in words.items()
            if name in rows
        }
        if "cell_id" in rows:
            titles["page"] = rows["cell_id"].map(lambda cell: self.curve_pages.get(cell, ""))
        return rows.assign(**titles)

    def _experiments_in_words(self, names: str) -> str:
        return re.sub(r"\w+", lambda name: self.experiment_title(name[0]), names)

    # --- charts ---

    def pick(self, *figures: str, **of: str) -> list[Chart]:
        """Return the charts of these figures, in that order. They are drawn when they are shown.

        With `column=value`, only charts of this value are returned, and those that compare several
        values of the column.
        """
        return [
            chart
            for name in figures
            for chart in self._charts_of(name)
            if all(chart.shows(column, value) for column, value in of.items())
        ]

    def _charts_of(self, name: str) -> list[Chart]:
        if name not in self._charts:
            declared = FIGURES[name]
            self._charts[name] = [*charts_of(declared, declared.rows(self), self.with_titles)]
        return self._charts[name]

    @cached_property
    def _charts(self) -> dict[str, list[Chart]]:
        """The charts that pages have asked for, by figure."""
        return {}


def title_of_variant(cell: Cell) -> str:
    """Return the words of a variant's name that are not in its strategy's, or all if none is."""
    known, words = cell.strategy.split("_"), (cell.variant or "").split("_")
    return " ".join([word for word in words if word not in known] or words)


def read_context(
    config_path: Path,
    results: Path,
    *,
    calibration_paths: Sequence[Path] = (),
    models_dir: Path | None = None,
    own_models: Mapping[str, Path] | None = None,
) -> ReportContext:
    """Read everything that the pages of a study need.

    Args:
        config_path: the study's configuration.
        results: the folder of the study's results. It contains `tables`, `fits`,
            `changes.csv` if two runs were compared, and `records` unless the configuration names
            other folders of records.
        calibration_paths: the files that `nodewise calibrate` wrote; none if no node is emulated.
        models_dir: the folder of the descriptions of the project's models, as written by
            `nodewise describe-model`; None to leave all models undescribed.
        own_models: the descriptions of users' own models, by the names that the study gives them.

    Raises:
        UserError: a file is missing or invalid, or a cell has no record.
    """
    config, tables = read_config(config_path), read_tables(results / "tables")
    folders = [Path(folder) for folder in config.records] or [results / "records"]
    records = {cell: _read_record(cell, folders) for cell in tables["cells"]["cell_id"]}
    tables = _without(tables, config.left_out)
    trained = set(tables["cells"]["model"])
    return ReportContext(
        config=config,
        tables=tables,
        records=records,
        datasets=read_registry(DATASETS, Entry),
        fit_tables=_without(read_tables(results / "fits", FIT_COLUMNS), config.left_out),
        fits=read_fit(results / "fits" / "fit.json", may_be_empty=True),
        calibrations=read_calibrations(calibration_paths),
        architectures=read_all_facts(models_dir, trained, own_models or {}) if models_dir else {},
        changes=read_changes(results / CHANGES_FILE),
    )


def _without(tables: queries.Tables, experiments: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the tables without the rows of these experiments."""
    return {
        name: rows[~rows["experiment"].isin(experiments)] if "experiment" in rows else rows
        for name, rows in tables.items()
    }


def _read_record(cell_id: str, folders: Iterable[Path]) -> Record:
    """Read the record of a cell from the first folder that contains it.

    Raises:
        UserError: there is none, or its file holds the record of another cell.
    """
    name = record_file(cell_id).removeprefix("records/")
    path = next((folder / name for folder in folders if (folder / name).is_file()), None)
    if path is None:
        raise UserError(f"there is no record of the cell {cell_id}; make the tables again")
    record = read_record(path)
    if record.cell.id != cell_id:  # the site has a copy of it at this address
        raise UserError(f"{path}: is not the record of the cell {cell_id}")
    return record
