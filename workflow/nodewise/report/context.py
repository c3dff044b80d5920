"""What the pages of a study are made from."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from nodewise.core.cell import node_in_words, parse_id
from nodewise.core.errors import UserError
from nodewise.data.registry import Entry, read_registry
from nodewise.models.facts import read_all_facts
from nodewise.models.registry import title_of
from nodewise.predict import queries
from nodewise.report.claims import Judged, judge_claims
from nodewise.report.html import Row, Words, slug, text
from nodewise.report.page import PageFigure, read_figure
from nodewise.report.strategy_words import trained_by
from nodewise.report.titles import experiment_titles
from nodewise.results.calibration import Calibration
from nodewise.results.compare_runs import read_changes
from nodewise.results.model_description import Architecture
from nodewise.results.record import Record, read_record
from nodewise.results.table_files import read_tables
from nodewise.strategies import STRATEGIES
from nodewise.study.config import Config, read_config

DATASETS = Path("data/datasets.yaml")
CHANGES = "changes.csv"  # beside the folder of the tables


@dataclass(frozen=True)
class ReportContext:
    """A measured study: all that its pages are made from.

    Attributes:
        calibrations: those of its clusters.
        architectures: what its models are, by name; a user's own models are not described.
        changes: what `nodewise compare` wrote of it; without rows if nothing was compared.
    """

    config: Config
    tables: queries.Tables
    records: Mapping[str, Record]
    datasets: dict[str, Entry]
    overhead: queries.Tables
    figures: list[PageFigure]
    calibrations: list[Calibration]
    architectures: dict[str, Architecture]
    changes: pd.DataFrame

    @cached_property
    def cells(self) -> pd.DataFrame:
        """The cells, each with the `page` of its curve, its `record` and its kind as `label`."""
        cells = self.tables["cells"]
        return queries.with_labels(cells).assign(
            page=list(map(curve_page, cells["model"], cells["strategy"])),
            record=list(map(record_file, cells["cell_id"])),
        )

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
    def claims(self) -> list[Judged]:
        """What the published studies claim, each judged by the tables."""
        return judge_claims(self.tables, self.overhead)

    @cached_property
    def experiment_titles(self) -> dict[str, str]:
        """The titles of experiments, by name."""
        return experiment_titles(self.config)

    def experiment_title(self, name: str) -> str:
        """Return the title of an experiment, or its name if no configuration has it."""
        return self.experiment_titles.get(name, name)

    @property
    def words(self) -> Words:
        """What readers are told for the names in the columns of charts."""
        strategy = self.strategy_title
        return {
            "model": self.model_title,
            "strategy": strategy,
            "line": strategy,
            "cluster": node_in_words,
        }

    def experiments_in_words(self, texts: "pd.Series[str]") -> "pd.Series[str]":
        """Return texts with the titles of the experiments that they name."""
        titles = self.experiment_titles

        def written(text: str) -> str:
            return re.sub(r"\w+", lambda name: titles.get(name[0], name[0]), text)

        return texts.map(written, na_action="ignore")

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

    def dataset_title(self, dataset: str) -> str:
        """Return the title of a dataset; where a user's own comes from."""
        if dataset in self.datasets:
            return self.datasets[dataset].title
        loads = [r.cell.load for r in self.records.values() if r.cell.dataset == dataset]
        return f"Own data, {loads[0]}" if loads and loads[0] else dataset

    def pick(self, *figures: str, **of: str) -> list[PageFigure]:
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


def curve_page(model: str, strategy: str) -> str:
    """Return the address of the page of a model's training by a strategy."""
    return f"curves/{slug(model)}/{slug(strategy)}.html"


def record_file(cell_id: str) -> str:
    """Return the address of the record of a cell."""
    return f"records/{_checked_id(cell_id)}.json"


def read_context(
    config_path: Path,
    *,
    tables_dir: Path,
    overhead_dir: Path,
    charts_dir: Path,
    records_dir: Path,
    calibration_paths: Sequence[Path] = (),
    models_dir: Path | None = None,
) -> ReportContext:
    """Read everything that pages are made from.

    Raises:
        UserError: a file is missing or invalid, or a cell has no record.
    """
    config, tables = read_config(config_path), read_tables(tables_dir)
    folders = [Path(folder) for folder in config.records] or [records_dir]
    trained = set(tables["cells"]["model"])
    return ReportContext(
        config=config,
        tables=tables,
        records=_Records([*tables["cells"]["cell_id"]], folders),
        datasets=read_registry(DATASETS),
        overhead=queries.read_overhead(overhead_dir),
        figures=[read_figure(path) for path in sorted(charts_dir.glob("*.vl.json"))],
        calibrations=queries.read_calibrations(calibration_paths),
        architectures=read_all_facts(models_dir, trained) if models_dir else {},
        changes=read_changes(tables_dir.parent / CHANGES),
    )


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
