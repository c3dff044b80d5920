"""Read everything that the pages of a study need."""

import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd
from markupsafe import Markup

from nodewise.core.cell import node_in_words
from nodewise.core.errors import UserError
from nodewise.core.schema import read_json
from nodewise.data.registry import Entry, read_registry
from nodewise.models.facts import read_all_facts
from nodewise.models.registry import title_of
from nodewise.predict.fit_file import FitFile, read_fit
from nodewise.predict.study import read_overhead
from nodewise.report import evidence
from nodewise.report.addresses import curve_page, record_file, results_page, strategy_page
from nodewise.report.charts import Chart, charts_of
from nodewise.report.claims import Judged, judge_claims
from nodewise.report.figures import FIGURES
from nodewise.report.html import text
from nodewise.report.tables import Words
from nodewise.report.titles import experiment_titles, short_title, title_of_strategy
from nodewise.results import comparisons, queries
from nodewise.results.calibration import Calibration, read_calibrations
from nodewise.results.compare_runs import read_changes
from nodewise.results.manifest import MANIFEST, Manifest
from nodewise.results.model_description import Architecture
from nodewise.results.record import Record, read_record
from nodewise.results.table_files import read_tables
from nodewise.strategies import STRATEGIES
from nodewise.study.config import Config, read_config

DATASETS = Path("data/datasets.yaml")
CHANGES = "changes.csv"
_OWN_DATA = "own-data"


@dataclass(frozen=True)
class ReportContext:
    """A measured study with everything that its pages need.

    Attributes:
        config: the study's configuration.
        tables: the tables of results, by name.
        records: the record of each cell, by cell id.
        datasets: the registered datasets, by name.
        overhead: the tables of the fits, by name.
        fits: the fits that `overhead` was made from, with their draws.
        calibrations: the calibrations of the study's clusters.
        architectures: the descriptions of the study's models, by model.
        changes: the table that `nodewise compare` wrote; it has no rows if no runs were compared.
        manifests: the manifests of the folders of published records.
    """

    config: Config
    tables: queries.Tables
    records: Mapping[str, Record]
    datasets: dict[str, Entry]
    overhead: queries.Tables
    fits: FitFile
    calibrations: list[Calibration]
    architectures: dict[str, Architecture]
    changes: pd.DataFrame
    manifests: list[Manifest]

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The table of cells, with columns added.

        `trained_with` is the registered strategy; `strategy` may be a study's own name for it.
        `page` is the address of the curve's page, `record` that of the cell's record, and `label`
        the kind of its numbers.
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
    def compared(self) -> pd.DataFrame:
        """All points on several nodes beside one node, from `comparisons.on_several_nodes`.

        The column `lacks` says what each lacks to count as evidence; it is empty if it counts.
        """
        rows = comparisons.on_several_nodes(self.tables["curves"])
        return evidence.check_times(rows, self.tables, other="_one")

    @cached_property
    def results_pages(self) -> dict[tuple[str, str], str]:
        """The address of each page of results, by model and dataset.

        The name of a user's own dataset is long and ends in digits, so addresses say `own-data`
        instead. Only where a model was trained on several such datasets, the address of all but the
        first contains the name.
        """
        pairs = self.tables["cells"][["model", "dataset"]].drop_duplicates()
        found: dict[tuple[str, str], str] = {}
        for model, dataset in sorted(pairs.itertuples(index=False, name=None)):
            page = results_page(model, dataset if dataset in self.datasets else _OWN_DATA)
            taken = page in found.values()
            found[model, dataset] = results_page(model, dataset) if taken else page
        return found

    @cached_property
    def stand_in(self) -> bool:
        """Whether any cell was trained on synthetic data."""
        return bool((self.tables["cells"]["data_origin"] == "generated").any())

    @cached_property
    def claims(self) -> list[Judged]:
        """The claims of the published studies, judged by the tables."""
        return judge_claims(self.tables, self.overhead)

    @cached_property
    def _experiment_titles(self) -> dict[str, str]:
        return experiment_titles(self.config)

    def experiment_title(self, name: str) -> str:
        """Return the title of an experiment, or its name if no configuration has it."""
        return self._experiment_titles.get(name, name)

    @property
    def words(self) -> Words:
        """For each column of names in a chart's data, the function that returns a name's title."""
        return {
            "model": self.model_title,
            "strategy": self.strategy_title,
            "line": self.strategy_title,
            "cluster": node_in_words,
        }

    def with_titles(self, rows: pd.DataFrame) -> pd.DataFrame:
        """Return `rows` with names replaced by titles, in every column that has names.

        In the column `experiment`, a text may name several experiments; each name is replaced.
        """
        words = {**self.words, "experiment": self._experiments_in_words}
        titles = {
            name: rows[name].map(word, na_action="ignore")
            for name, word in words.items()
            if name in rows
        }
        return rows.assign(**titles)

    def with_links(self, rows: pd.DataFrame, page: str) -> pd.DataFrame:
        """Return `rows` with titles, where strategies link to their pages.

        Only the first occurrence of a strategy is a link. `page` is the address of the page that
        shows the rows; links are relative to it.
        """
        folder, link = posixpath.dirname(page) or ".", Markup('<a href="{}">{}</a>')
        titled = self.with_titles(rows)

        def linked(experiment: str, name: str, title: str) -> Markup | str:
            strategy = self.trained_with.get((experiment, name), name)
            address = posixpath.relpath(strategy_page(strategy), folder)
            return link.format(address, text(title)) if strategy in STRATEGIES else title

        firsts = ~rows["strategy"].duplicated()
        cells = zip(rows["experiment"], rows["strategy"], titled["strategy"], firsts, strict=True)
        titles = [linked(*of) if first else of[-1] for *of, first in cells]
        return titled.assign(strategy=titles)

    @cached_property
    def trained_with(self) -> dict[tuple[str, str], str]:
        """The registered strategy that a study's own name stands for, by experiment and name."""
        at = ["experiment", "strategy"]
        firsts = self.cells.drop_duplicates(at)[[*at, "trained_with"]].to_numpy()
        return {(one, name): strategy for one, name, strategy in firsts}

    def _experiments_in_words(self, names: str) -> str:
        return re.sub(r"\w+", lambda name: self.experiment_title(name[0]), names)

    def model_title(self, model: str) -> str:
        """Return the title of a model, or its name if it is not one of ours."""
        return title_of(model)

    def strategy_title(self, name: str) -> str:
        """Return the title of a strategy, for sentences and tables.

        The title of a study's own variant of a strategy also states its setting. Of a registered
        title, only the part before a comma is used: the rest is a detail that sentences can spare.
        """
        return self._variant_titles.get(name) or short_title(name)

    @cached_property
    def _variant_titles(self) -> dict[str, str]:
        """The titles of the study's own variants of strategies, by name."""
        firsts = self.tables["cells"].drop_duplicates("strategy")[["strategy", "cell_id"]]
        return {
            name: title_of_strategy(self.records[cell_id].cell)
            for name, cell_id in firsts.to_numpy()
            if name not in STRATEGIES
        }

    def dataset_title(self, dataset: str) -> str:
        """Return the title of a dataset; for a user's own dataset, say how it is loaded."""
        if dataset in self.datasets:
            return self.datasets[dataset].title
        loads = [r.cell.load for r in self.records.values() if r.cell.dataset == dataset]
        return f"Own data, {loads[0]}" if loads and loads[0] else dataset

    def pick(self, *figures: str, **of: str) -> list[Chart]:
        """Return the charts of these figures, in that order. They are drawn when they are shown.

        Args:
            figures: names such as `time`.
            of: column=value; only charts of this value are returned, and those that compare
                several values of the column.
        """
        return [
            chart
            for name in figures
            for chart in self._charts_of(name)
            if all(chart.shows(column, value) for column, value in of.items())
        ]

    def pick_of_study(self, published: str, *figures: str) -> list[Chart]:
        """Return the charts of these figures that show an experiment on a published study."""
        records = self.records.values()
        experiments = {one.cell.experiment for one in records if one.cell.study == published}
        return [one for one in self.pick(*figures) if one.of.get("experiment") in experiments]

    def _charts_of(self, name: str) -> list[Chart]:
        if name not in self._charts:
            declared = FIGURES[name]
            self._charts[name] = [*charts_of(declared, declared.rows(self), self.with_titles)]
        return self._charts[name]

    @cached_property
    def _charts(self) -> dict[str, list[Chart]]:
        """The charts that pages have asked for, by figure."""
        return {}

    def processors(self, rows: pd.DataFrame) -> list[str]:
        """Return the processor that each row was measured on; empty if a row has no record."""
        return [
            self.records[cell].provenance.cpu if cell in self.records else ""
            for cell in rows["cell_id"]
        ]


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
        results: the folder of the study's results. It contains `tables`, `overhead` (the fits),
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
    records = _read_records(tables["cells"]["cell_id"], folders)
    tables = _without(tables, config.left_out)
    trained = set(tables["cells"]["model"])
    return ReportContext(
        config=config,
        tables=tables,
        records=records,
        datasets=read_registry(DATASETS),
        overhead=_without(read_overhead(results / "overhead"), config.left_out),
        fits=read_fit(results / "overhead" / "fit.json", may_be_empty=True),
        calibrations=read_calibrations(calibration_paths),
        architectures=read_all_facts(models_dir, trained, own_models or {}) if models_dir else {},
        changes=read_changes(results / CHANGES),
        manifests=[read_json(Manifest, file) for file in config.beside_records(MANIFEST)],
    )


def _without(tables: queries.Tables, experiments: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Return the tables without the rows of these experiments."""
    return {
        name: rows[~rows["experiment"].isin(experiments)] if "experiment" in rows else rows
        for name, rows in tables.items()
    }


def _read_records(cell_ids: Iterable[str], folders: Sequence[Path]) -> dict[str, Record]:
    """Read the records of cells; each is read from the first folder that contains it.

    Returns:
        The records, by cell id.

    Raises:
        UserError: a cell has no record, or its file holds that of another cell.
    """
    records = {}
    for cell_id in cell_ids:
        name = record_file(cell_id).removeprefix("records/")
        path = next((folder / name for folder in folders if (folder / name).is_file()), None)
        if path is None:
            raise UserError(f"there is no record of the cell {cell_id}; make the tables again")
        records[cell_id] = read_record(path)
        if records[cell_id].cell.id != cell_id:  # the site has a copy of it at this address
            raise UserError(f"{path}: is not the record of the cell {cell_id}")
    return records
