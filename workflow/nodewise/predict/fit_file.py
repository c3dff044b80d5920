"""Write and read fit.json: curves and the laws fitted to them, as a readable file.

It holds everything that predictions need: the measurements, the fitted coefficients, and their
draws (equally likely values), from which intervals come. Draws are rounded to five digits.
"""

import hashlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from nodewise import __version__
from nodewise.core.cell import Frozen
from nodewise.core.errors import UserError
from nodewise.core.files import file_sha256, write_text
from nodewise.core.schema import read_json
from nodewise.predict.fit import Fit, interval_of
from nodewise.predict.fit_curves import CurveGroup, curves_of, fit_curves
from nodewise.predict.law import LAWS
from nodewise.results.calibration import Calibration, read_calibrations
from nodewise.results.columns import COLUMNS
from nodewise.results.curve_points import imported_points
from nodewise.results.curves import Curve, Measurements, Text
from nodewise.results.record import Finite
from nodewise.results.table_files import read_file
from nodewise.results.tables import build_tables


class Coefficient(Frozen):
    """A coefficient: fitted `value`, ends of its 90 % interval, and equally likely values.

    `of` is the curve or the cluster that it belongs to. `certain` says whether the measurements
    determine it.
    """

    name: str
    of: str
    unit: str
    meaning: str
    value: Finite
    low: Finite
    high: Finite
    certain: bool
    draws: tuple[Finite, ...] = Field(min_length=1)


class FittedCurves(Frozen):
    """Curves that were fitted together.

    `noise` is the relative standard deviation of measured steps around the law.
    """

    curves: tuple[Text, ...] = Field(min_length=1)
    collective: Text
    law: str
    noise: Finite
    coefficients: tuple[Coefficient, ...]

    @classmethod
    def of_fit(cls, fitted: Fit, curves: Sequence[Curve]) -> Self:
        """Return a fit of these curves in this form."""
        first, coefficients = curves[0], []
        meanings = {p.name: (p.unit, p.meaning) for p in fitted.law.parameters}
        low, high = interval_of(fitted.draws).tolist()
        for i, (name, label) in enumerate(fitted.coefficients):
            unit, meaning = meanings[name]
            if first.payload_bytes is None:
                unit = unit.replace("s/B", "s per gradient")
            if not first.in_seconds:
                unit = unit.replace("s", "s of an epoch of one example", 1)
            value, *draws = fitted.draws[:, i].tolist()
            about: dict[str, Any] = {"unit": unit, "meaning": meaning, "certain": fitted.certain[i]}
            about |= {"value": value, "low": low[i], "high": high[i]}
            about["draws"] = tuple(float(f"{draw:.5g}") for draw in draws)
            coefficients.append(Coefficient(name=name, of=label, **about))
        return cls(
            curves=tuple(curve.name for curve in curves),
            collective=first.collective,
            law=fitted.law.title,
            noise=fitted.noise,
            coefficients=tuple(coefficients),
        )

    def fit(self, curves: Sequence[Curve]) -> Fit:
        """Return the fit of these curves.

        Raises:
            ValueError: the law is unknown, the coefficients are not those of the law, or they have
                different numbers of draws.
        """
        try:
            law = LAWS.make(self.collective)
        except UserError as error:
            raise ValueError(str(error)) from None
        labels = {"model": [curve.name for curve in curves], "link": [curves[0].link]}
        needed = [(p.name, label) for p in law.parameters for label in labels[p.scope]]
        coefficients = tuple((c.name, c.of) for c in self.coefficients)
        counts = {len(c.draws) for c in self.coefficients}
        if sorted(coefficients) != sorted(needed) or len(counts) > 1:
            raise ValueError(f"the coefficients are not those of {law.name}")
        return Fit(
            law=law,
            coefficients=coefficients,
            draws=np.array([(c.value, *c.draws) for c in self.coefficients]).T,
            noise=self.noise,
            certain=tuple(c.certain for c in self.coefficients),
            count=sum(len(curve.measured) for curve in curves),
        )


class FitFile(Frozen):
    """The content of a fit.json."""

    version: Literal[5] = 5
    made_by: str
    kind: Literal["fitted"] = "fitted"
    source: str
    source_sha256: str
    notes: tuple[str, ...]
    curves: tuple[Curve, ...]
    fits: tuple[FittedCurves, ...]

    @cached_property
    def fit_by_curve(self) -> dict[str, Fit]:
        """The fit of each curve, by its name."""
        curves = {curve.name: curve for curve in self.curves}
        found: dict[str, Fit] = {}
        for group in self.fits:
            fitted = group.fit([curves[name] for name in group.curves])
            found |= dict.fromkeys(group.curves, fitted)
        return found

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        names = [curve.name for curve in self.curves]
        of_fits = [name for group in self.fits for name in group.curves]
        if len(set(names)) < len(names) or sorted(of_fits) != sorted(names):
            raise ValueError("each curve must be there once, and in one of the fits")
        _ = self.fit_by_curve  # raises if coefficients are not those of their law
        return self


def fit_measurements(measured: Measurements) -> FitFile:
    """Fit the law of its collective to each curve. Curves of one cluster are fitted together.

    Raises:
        UserError: a curve names an unknown law.
    """
    found = fit_curves(imported_points(measured.curves))
    of_curve = {str(name): fit for group, fit in found for name in group.rows["curve"].unique()}
    curves = [_with_notes(curve, of_curve[curve.name]) for curve in measured.curves]
    return file_of(found, measured.source, measured.sha256, curves=curves, notes=measured.notes)


def fit_study(path: Path) -> FitFile:
    """Fit the curves of a study, given by the folder of its results or by its curve_points.csv.

    Calibrations in the folder say what is known of the links.

    Raises:
        UserError: there are no records or no points to fit, or one cannot be read.
    """
    calibrations: list[Calibration] = []
    if path.is_dir():
        files = sorted(path.rglob("repeat~*.json"))
        points = build_tables(files)["curve_points"]
        calibrations = read_calibrations(sorted(path.rglob("calibration.json")))
    else:
        files = [path]
        points = read_file(path, COLUMNS["curve_points"])
    found = fit_curves(points, calibrations)
    if not found:
        raise UserError(f"{path}: holds no measured step times of a study")
    digests = "".join(file_sha256(file) for file in files)
    return file_of(found, str(path), hashlib.sha256(digests.encode()).hexdigest())


def write_fit(path: Path, content: FitFile) -> None:
    """Write a fit.json atomically, with each curve, point and coefficient on a line of its own."""
    text = content.model_dump_json(exclude_none=True)
    write_text(path, text.replace('{"', '\n{"').lstrip() + "\n")  # strings have \\" for quotes


def read_fit(path: Path, *, may_be_empty: bool = False) -> FitFile:
    """Read and check a fit.json, or that of a study, whose folder of results `path` is.

    It contains no curves if its study has no points.

    Raises:
        UserError: the file is missing, too large, damaged, of another version, no fit.json, or
            empty although it must not be.
    """
    path = path / "fits/fit.json" if path.is_dir() else path
    file = read_json(FitFile, path, "it must be what this version's `nodewise fit` writes")
    if not file.curves and not may_be_empty:
        raise UserError(f"{path}: holds no curve, as {file.source} has no points to fit")
    return file


def _with_notes(curve: Curve, fitted: Fit) -> Curve:
    """Return the curve with notes on what the points leave open."""
    notes, labels = list(curve.notes), (curve.name, curve.link)
    terms = zip(fitted.coefficients, fitted.certain, strict=True)
    open_terms = [name for (name, label), certain in terms if label in labels and not certain]
    if len(curve.batches) == 1:
        notes.append("one batch per worker: how computing grows with the batch is unknown")
        open_terms = [name for name in open_terms if not name.startswith("compute_")]
    if open_terms and not curve.like_published:
        notes.append(f"left open by the points, so intervals are wider: {', '.join(open_terms)}")
    return curve.model_copy(update={"notes": tuple(notes)})


def file_of(
    found: Sequence[tuple[CurveGroup, Fit]],
    source: str,
    sha256: str,
    *,
    curves: Sequence[Curve] | None = None,
    notes: tuple[str, ...] = (),
) -> FitFile:
    """Return fits as the content of a fit.json.

    Args:
        found: the fits; empty for a study without points.
        source: name of the file or table of their points.
        sha256: checksum of that file.
        curves: the curves that were fitted; default: those of the table of points.
        notes: remarks for readers.
    """
    if curves is None:
        curves = [curve for group, _ in found for curve in curves_of(group)]
    named = {curve.name: curve for curve in curves}
    groups = [
        FittedCurves.of_fit(fit, [named[str(name)] for name in group.fitted.rows["curve"].unique()])
        for group, fit in found
    ]
    return FitFile(
        made_by=f"nodewise {__version__}",
        source=source,
        source_sha256=sha256,
        notes=notes,
        curves=tuple(curves),
        fits=tuple(groups),
    )
