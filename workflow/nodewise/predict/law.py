"""The interface of laws: the time of one training step as a formula of nodes, batch and payload.

A law declares its coefficients (unit, and which curves share them) and its formulas. Each formula
is a SymPy expression, from which NumPy and MathML are generated. Laws are in `laws/`,
or in a module of another package that registers an entry point in the group `nodewise.laws`. `fit`
estimates the coefficients.

Symbols: n is the number of nodes, b the batch per worker, G = n·b the global batch, and S the
payload, which is the size of one gradient in bytes. "Step time" always means the time in which n·b
examples are processed, even if workers do not step together.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Literal, TypeVar

import pandas as pd
import sympy
from numpy.typing import ArrayLike
from sympy import Expr, Symbol

from nodewise.core.errors import UserError
from nodewise.core.registry import Registry
from nodewise.predict.points import Floats, Points

L = TypeVar("L", bound="Law")
Scope = Literal["model", "link"]

n, b, S = sympy.symbols("n b S", nonnegative=True)
"""Nodes; batch per worker, in examples; payload, in bytes."""
AXES: Mapping[str, Symbol] = {"nodes": n, "batch": b, "payload": S}
PARTS: Mapping[str, Symbol] = {
    "slowest": Symbol("m_n", nonnegative=True),
    **{
        part: Symbol(f"t_{part}", nonnegative=True)
        for part in ("compute", "input", "wait", "communicate")
    },
}
"""Symbols of formulas that later ones and the step itself may use: m_n, and the parts of a step."""


def in_order(*terms: Expr) -> Expr:
    """Return an unevaluated sum, whose terms are displayed in this order."""
    return sympy.Add(*terms, evaluate=False)


@dataclass(frozen=True)
class Parameter:
    """A coefficient of a law, at least 0.

    `scope` says which points share one value: those of a `model` (trained one way) or those over a
    `link` (one cluster). `shrink` sets a weak prior at 0 for effects that are usually absent: it is
    the expected size of the coefficient's term, as a share of the step. None means no such prior.
    Formulas use `symbol`.
    """

    letter: str
    name: str
    unit: str
    scope: Scope
    description: str
    shrink: float | None = None

    @property
    def symbol(self) -> Symbol:
        """The symbol of the coefficient in formulas."""
        return positive(self.letter)

    @property
    def meaning(self) -> str:
        """The letter and the description of the coefficient, for tables."""
        return f"{sympy.pretty(self.symbol, use_unicode=True)}: {self.description}"


def positive(letter: str) -> Symbol:
    """Return a symbol for a number that is at least 0."""
    return Symbol(letter, nonnegative=True)


Value = Any
"""A coefficient or a result computed from it: a number, or an array that broadcasts with points."""

Values = Mapping[str, Value]
"""The value of each coefficient, by name."""


def setting(
    letter: str, unit: str, description: str, *, least: float, default: object = MISSING
) -> Any:  # noqa: ANN401 (as `dataclasses.field`)
    """Return a dataclass field of a law for a known setting, which is not fitted.

    `least` is the lowest allowed value.
    """
    about = {"letter": letter, "unit": unit, "description": description, "least": least}
    return field(default=default, metadata=about)


@dataclass(frozen=True)
class Law:
    """Base class of laws: the step time of one kind of training, in seconds.

    Known structure, such as the period of parameter averaging, is a `setting`. A subclass that adds
    settings must be a frozen dataclass; other subclasses need no decorator.

    Attributes:
        name: name of the law. Exchanges refer to it, and curves in their column `collective`.
        aliases: other names that curves may use for it.
        alone: in words, what one node does in addition to plain training.
        title: name in tables and charts.
        source: publication of the formula.
        parameters: the coefficients.
        step: the formula of the step time.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    alone: ClassVar[str] = ""
    title: ClassVar[str]
    source: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]]
    step: ClassVar[Expr]

    def __post_init__(self) -> None:
        for each in fields(self):
            least, value = each.metadata["least"], getattr(self, each.name)
            if not value >= least:
                raise ValueError(f"{each.name}: must be {least:g} or more, not {value!r}")

    @classmethod
    def of_curve(cls, options: Mapping[str, Any], rows: pd.DataFrame) -> "Law | None":
        """Return the law of a curve, with the strategy's options of the same names as settings.

        Args:
            options: options of the curve's strategy.
            rows: rows of the curve in the table of points, for laws with measured settings.

        Returns:
            The law, or None if it does not hold with these options.
        """
        names = {each.name for each in fields(cls)}
        return cls(**{name: value for name, value in options.items() if name in names})

    @classmethod
    def symbols(cls) -> dict[str, Symbol]:
        """Return the symbols of axes, coefficients and settings, by name."""
        coefficients = {p.name: p.symbol for p in cls.parameters}
        return {
            **AXES,
            **coefficients,
            **{f.name: positive(f.metadata["letter"]) for f in fields(cls)},
        }

    @classmethod
    def formulas(cls) -> dict[str, Expr]:
        """Return the formulas of the parts that the step uses, in order, then that of the step."""
        formulas = {"step": sympy.sympify(cls.step)}
        wanted = formulas["step"].free_symbols
        for name, symbol in reversed(list(PARTS.items())):
            if symbol in wanted:
                formulas = {name: sympy.sympify(getattr(cls, name)), **formulas}
                wanted = wanted | formulas[name].free_symbols
        return formulas

    def seconds(self, values: Values, points: Points) -> dict[str, Floats]:
        """Return the seconds of the step and of its parts, by name of the formula.

        The shape of each broadcasts with the values and the points.
        """
        known: dict[str, Value] = {**values, **vars(self), **vars(points)}
        # mypy mistakes the class for an instance, which is unhashable in some dataclasses
        functions = _compiled(type(self))  # type: ignore[arg-type]
        for name, arguments, function in functions:
            known[name] = function(*(known[argument] for argument in arguments))
        return {name: known[name] + 0.0 * points.nodes for name, _, _ in functions}

    def evaluate(
        self, values: Values, nodes: ArrayLike, batch: ArrayLike, payload: ArrayLike
    ) -> Floats:
        """Return step times in seconds, in the broadcast shape of the arguments."""
        return self.seconds(values, Points.of(nodes, batch, payload))["step"]


@cache
def _compiled(law: type[Law]) -> list[tuple[str, list[str], Callable[..., Value]]]:
    """Return each formula of a law: its name, the names of its arguments, and its function.

    Names of earlier formulas are among the arguments.
    """
    names = {symbol: name for name, symbol in {**law.symbols(), **PARTS}.items()}
    compiled = []
    for name, formula in law.formulas().items():
        used = sorted(formula.free_symbols, key=str)
        function = sympy.lambdify(used, formula, "numpy")
        compiled.append((name, [names[symbol] for symbol in used], function))
    return compiled


def law_text(law: Law) -> str:
    """Return the text that `LAWS.make` reads: the law's name and its non-default settings.

    Example:
        >>> from nodewise.predict.laws.averaging import ParameterAveraging
        >>> law_text(ParameterAveraging(period=8))
        'averaging(period=8)'
    """
    unusual = [f for f in fields(law) if getattr(law, f.name) != f.default]
    settings = ", ".join(f"{f.name}={float(getattr(law, f.name)):.12g}" for f in unusual)
    return f"{law.name}({settings})" if settings else law.name


_SETTING = r"(\w+) *= *([-+.\deE]+)"
_LAW_TEXT = re.compile(rf"([\w-]+)(?:\(((?:{_SETTING}[, ]*)*)\))?")


class _Laws(Registry[type[Law]]):
    def register(self, law: type[L]) -> type[L]:
        """Register a class by its `name`; use as a decorator."""
        self.add(law.name, law)
        return law

    def make(self, text: str) -> Law:
        """Parse the text of a law, such as `ring` or `averaging(period=8)`.

        Raises:
            UserError: there is no such law, or its settings are not allowed.
        """
        found = _LAW_TEXT.fullmatch(text)
        name = found[1] if found else text
        law = self.get(name) or next((law for law in self.values() if name in law.aliases), None)
        if found is None or law is None:
            names = sorted({*self, *(alias for each in self.values() for alias in each.aliases)})
            raise UserError(f"law {text[:60]}: unknown; allowed: {', '.join(names)}")
        settings = dict(re.findall(_SETTING, found[2] or ""))
        types = {each.name: each for each in fields(law)}
        needed = {name for name, each in types.items() if each.default is MISSING}
        if not needed <= set(settings) <= set(types):
            example = ", ".join(f"{name}=…" for name in types)
            raise UserError(f"law {text[:60]}: must be written {law.name}({example})")
        try:
            return law(**{name: float(value) for name, value in settings.items()})
        except ValueError as error:
            raise UserError(f"law {text[:60]}: {error}") from None


LAWS = _Laws("law", "nodewise.predict.laws", "nodewise.laws")
"""All laws by name. Some have settings, such as the `period` of parameter averaging."""
