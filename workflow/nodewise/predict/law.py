"""Laws: the time of one training step as a formula of nodes, batch and payload.

`laws.yaml` declares the laws of this project: their coefficients (unit, and which curves share
them) and their formulas. Each formula is a SymPy expression, from which NumPy and MathML are
generated. Another package reads a file of its own laws with `LAWS.read`, in a module that it
registers as an entry point in the group `nodewise.laws`. `fit` estimates the coefficients.

Symbols: n is the number of nodes, b the batch per worker, G = n·b the global batch, and S the
payload, which is the size of one gradient in bytes. "Step time" always means the time in which n·b
examples are processed, even if workers do not step together.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import sympy
from pydantic import BaseModel
from sympy import Expr, Symbol
from sympy.parsing.sympy_parser import parse_expr

from nodewise.core.errors import UserError
from nodewise.core.registry import Registry
from nodewise.core.schema import read_tree
from nodewise.predict.points import Floats, Points

FILE = Path(__file__).with_name("laws.yaml")
AXES = "n", "b", "S"
"""Letters of the axes: nodes; batch per worker, in examples; payload, in bytes."""
_PARTS = "compute", "input", "wait", "communicate"
_declared = cache(read_tree)  # laws of other files may be like those of `laws.yaml`


def symbol(letter: str) -> Symbol:
    """Return the symbol of a letter, a number that is at least 0."""
    return Symbol(letter, nonnegative=True)


SYMBOLS: Mapping[str, Symbol] = {
    "slowest": symbol("m_n"),
    **{part: symbol(f"t_{part}") for part in _PARTS},
}
"""Symbols of formulas that later ones and the step itself may use: m_n, and the parts of a step."""


class Number(BaseModel, frozen=True, extra="forbid"):
    """A number of a law, which its formulas call by a letter; `laws.yaml` explains it."""

    letter: str
    unit: str
    description: str


class Parameter(Number):
    """A coefficient of a law, at least 0."""

    name: str
    scope: Literal["model", "link"]
    shrink: float | None = None

    @cached_property
    def meaning(self) -> str:
        """The letter and the description of the coefficient, for tables."""
        return f"{sympy.pretty(symbol(self.letter), use_unicode=True)}: {self.description}"


class Setting(Number):
    """A known number of a law, at least `least`, which is not fitted."""

    least: float
    default: int | float | None = None
    measured: str = ""
    unmeasured: float | None = None

    def of_rows(self, rows: pd.DataFrame) -> float | None:
        """Return the median of what is `measured`, from the points of a curve."""
        values = pd.Series(rows.eval(self.measured), dtype=float)
        median = float(values.where(np.isfinite(values)).median())
        return median if median > 0 else self.unmeasured


class Law(BaseModel, frozen=True, extra="forbid"):
    """A law, with the values of its settings; `laws.yaml` explains the other attributes."""

    name: str
    title: str
    source: str
    aliases: tuple[str, ...] = ()
    alone: str = ""
    parameters: tuple[Parameter, ...]
    settings: dict[str, Setting] = {}
    without: tuple[str, ...] = ()
    over_machines: str | None = None
    written: dict[str, str | list[str]]
    values: dict[str, int | float] = {}

    @property
    def letters(self) -> list[str]:
        """The letters of axes, coefficients and settings."""
        about = [*self.parameters, *self.settings.values()]
        return [*AXES, *(each.letter for each in about)]

    @cached_property
    def formulas(self) -> dict[str, Expr]:
        """The formulas of the parts, in order, then that of the step; m_n only if it is used."""
        known = {letter: symbol(letter) for letter in self.letters}
        known |= {one.name: one for one in SYMBOLS.values()}
        found = {name: _parse(self.written[name], known) for name in (*SYMBOLS, "step")}
        used = set().union(*(formula.free_symbols for formula in found.values()))
        return {
            name: of for name, of in found.items() if name != "slowest" or SYMBOLS[name] in used
        }

    @property
    def text(self) -> str:
        """What `LAWS.make` reads: the name and unusual settings, such as `averaging(period=8)`."""
        unusual = [n for n, value in self.values.items() if value != self.settings[n].default]
        settings = ", ".join(f"{name}={float(self.values[name]):.12g}" for name in unusual)
        return f"{self.name}({settings})" if settings else self.name

    def with_settings(self, **values: float) -> "Law":
        """Return the law with these settings, and the defaults of others.

        Raises:
            UserError: one is missing, unknown, or not allowed.
        """
        usual = {name: of.default for name, of in self.settings.items() if of.default is not None}
        known = usual | values
        if {*known} != {*self.settings}:
            example = ", ".join(f"{name}=…" for name in self.settings)
            raise UserError(f"law {self.name}: must be written {self.name}({example})")
        for name, value in known.items():
            if not (least := self.settings[name].least) <= value < np.inf:
                wrong = f"must be {least:g} or more, not {value!r}"
                raise UserError(f"law {self.name}: {name}: {wrong}")
        return self.model_copy(update={"values": known})

    def of_curve(self, options: Mapping[str, Any], rows: pd.DataFrame) -> "Law | None":
        """Return the law of a curve, with its settings.

        Args:
            options: options of the curve's strategy.
            rows: rows of the curve in the table of points.

        Returns:
            The law, or None if it does not hold with these options.
        """
        if self.over_machines and rows["nodes_per_machine"].max() > 1:
            return LAWS.find(self.over_machines).of_curve(options, rows)
        values: dict[str, Any] = {
            name: setting.of_rows(rows) if setting.measured else options.get(name, setting.default)
            for name, setting in self.settings.items()
        }
        numbers = all(isinstance(value, int | float) for value in values.values())
        holds = numbers and not {*self.without} & {*options}
        return self.with_settings(**values) if holds else None

    def seconds(self, values: Mapping[str, Any], points: Points) -> dict[str, Floats]:
        """Return the seconds of the step and of its parts, by name of the formula.

        Args:
            values: the value of each coefficient, by name: a number, or an array that broadcasts
                with the points. The results have the broadcast shape.
            points: the points.
        """
        coefficients = (values[p.name] for p in self.parameters)
        settings = (self.values[name] for name in self.settings)
        names, function = _compiled(self.name)
        found = function(points.nodes, points.batch, points.payload, *coefficients, *settings)
        return {name: value + 0.0 * points.nodes for name, value in zip(names, found, strict=True)}


def _parse(written: str | list[str], known: Mapping[str, Symbol]) -> Expr:
    """Return a formula, from its text or those of its terms, which are displayed in this order."""
    if isinstance(written, str):
        return parse_expr(written, dict(known))
    return sympy.Add(*(parse_expr(term, dict(known)) for term in written), evaluate=False)


@cache
def _compiled(name: str) -> tuple[list[str], Callable[..., list[Any]]]:
    """Return the names of a law's formulas, and the function of its letters that computes them."""
    law, whole = LAWS[name], dict[Symbol, Expr]()
    for part, formula in law.formulas.items():
        whole[SYMBOLS.get(part, Symbol(part))] = formula.xreplace(whole)
    arguments = [symbol(letter) for letter in law.letters]
    return [*law.formulas], sympy.lambdify(arguments, [*whole.values()], "numpy", cse=True)


_SETTING = r"(\w+) *= *([-+.\deE]+)"
_TEXT = re.compile(rf"([\w-]+)(?:\(((?:{_SETTING}[, ]*)*)\))?")


class _Laws(Registry[Law]):
    def read(self, path: Path) -> None:
        """Register the laws of a file like `laws.yaml`; they may also be like those in it."""
        base, own = _declared(FILE), _declared(path)
        parameters = base["parameters"] | own.get("parameters", {})
        kinds = base["kinds"] | base["laws"] | own.get("kinds", {}) | own["laws"]
        for name in own["laws"]:
            law = _whole(kinds[name], kinds)
            shrink = law.pop("shrink", {})
            law["written"] = {part: law.pop(part, "0") for part in (*SYMBOLS, "step")}
            law["parameters"] = [
                {"name": one} | parameters[one] | ({"shrink": shrink[one]} if one in shrink else {})
                for one in law["parameters"]
            ]
            self.add(name, Law.model_validate({"name": name} | law))

    def make(self, text: str) -> Law:
        """Parse the text of a law, such as `ring` or `averaging(period=8)`.

        Raises:
            UserError: there is no such law, or its settings are not allowed.
        """
        found = _TEXT.fullmatch(text)
        name, inside = (found[1], found[2] or "") if found else (text, "")
        laws = {known: law for law in self.values() for known in (law.name, *law.aliases)}
        if name not in laws:
            raise UserError(f"law {text[:60]}: unknown; allowed: {', '.join(sorted(laws))}")
        settings = {name: float(value) for name, value in re.findall(_SETTING, inside)}
        return laws[name].with_settings(**settings)


def _whole(law: dict[str, Any], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a declared law with what it has from the one that it is like."""
    if "like" not in law:
        return dict(law)
    whole = _whole(known[law["like"]], known) | law
    whole["parameters"] = [*whole["parameters"], *whole.pop("adds", [])]
    return {name: value for name, value in whole.items() if name != "like"}


LAWS = _Laws("law", None, "nodewise.laws")
"""All laws by name. Some have settings, such as the `period` of parameter averaging."""
LAWS.read(FILE)
