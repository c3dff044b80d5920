"""The interface of laws: the time of one training step as a formula of nodes, batch and payload.

A law declares its coefficients (unit, and which curves share them) and its formulas. Each formula
is a SymPy expression, from which NumPy, JavaScript and MathML are generated. A law is one file in
`laws/`, or a module of another package that registers an entry point in the group `nodewise.laws`.
`fit` estimates the coefficients.

Symbols: n is the number of nodes, b the batch per worker, G = n·b the global batch, and S the
payload, which is the size of one gradient in bytes. "Step time" always means the time in which n·b
examples are processed, even if workers do not step together.

Baselines are laws of the number of nodes alone, taken from other fields or other authors. They know
neither the payload nor how nodes exchange data, so their coefficients hold at one batch per worker.
Some baselines were published for a job of fixed size. They are converted to step times: with steps
of n·b examples, the job takes 1/n as many steps on n nodes, so its time (the inverse of its speed)
is proportional to t(n)/n.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray
from sympy import Expr, Symbol

from nodewise.core.errors import UserError
from nodewise.core.registry import Registry
from nodewise.predict.functions import FUNCTIONS

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]
if TYPE_CHECKING:
    import pandas as pd

L = TypeVar("L", bound="Law")
Scope = Literal["model", "link", "line"]

n, b, S = sympy.symbols("n b S", nonnegative=True)
"""Nodes; batch per worker, in examples; payload, in bytes."""
AXES: Mapping[str, Symbol] = {"nodes": n, "batch": b, "payload": S}
PARTS: Mapping[str, Symbol] = {
    part: Symbol(f"t_{part}", nonnegative=True)
    for part in ("compute", "input", "wait", "communicate")
}
"""Symbols of the parts of a step. Later parts and the step itself may use them in formulas."""


def in_order(*terms: Expr) -> Expr:
    """Return an unevaluated sum, whose terms are displayed in this order."""
    return sympy.Add(*terms, evaluate=False)


@dataclass(frozen=True)
class Parameter:
    """A coefficient of a law. It is at least 0 unless it is `signed`.

    `scope` says which points share one value: those of a `model` (trained one way), those over a
    `link` (one cluster), or only those of a `line` (one batch of one curve). `shrink` sets a weak
    prior at 0 for effects that are usually absent: it is the expected size of the coefficient's
    term, as a share of the step. None means no such prior. Formulas use `symbol`.
    """

    letter: str
    name: str
    unit: str
    scope: Scope
    description: str
    shrink: float | None = None
    signed: bool = False

    @property
    def symbol(self) -> Symbol:
        """The symbol of the coefficient in formulas."""
        return Symbol(self.letter, real=True) if self.signed else positive(self.letter)

    @property
    def meaning(self) -> str:
        """The letter and the description of the coefficient, for tables."""
        return f"{sympy.pretty(self.symbol, use_unicode=True)}: {self.description}"


def positive(letter: str) -> Symbol:
    """Return a symbol for a number that is at least 0."""
    return Symbol(letter, nonnegative=True)


@dataclass(frozen=True)
class At:
    """The points at which a law is evaluated, as arrays of equal or broadcastable shape.

    `nodes` is n ≥ 1, `batch` is b in examples per worker, and `payload` is S in bytes.
    """

    nodes: Floats
    batch: Floats
    payload: Floats

    @classmethod
    def of(cls, nodes: ArrayLike, batch: ArrayLike, payload: ArrayLike) -> "At":
        """Return the points as float arrays of one shape.

        Raises:
            ValueError: a number of nodes is below 1.
        """
        arrays = np.broadcast_arrays(*(np.asarray(x, float) for x in (nodes, batch, payload)))
        if np.any(arrays[0] < 1):
            raise ValueError("a step needs at least one node")
        return cls(*arrays)


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


def symbol_of(setting: "Field[Any]") -> Symbol:
    """Return the symbol of a setting in formulas."""
    return positive(setting.metadata["letter"])


@dataclass(frozen=True)
class Law:
    """Base class of laws: the step time of one kind of training, in seconds.

    Known structure, such as the period of parameter averaging, is a `setting`. A subclass that adds
    settings must be a frozen dataclass; other subclasses need no decorator.

    Attributes:
        name: name of the law. Exchanges refer to it, and curves in their column `collective`.
        aliases: other names that curves may use for it.
        link_known_by: source of the priors on the link: the ring all-reduces of a calibration
            (`rings`) or the rate of the link (`rate`); see `known_links`.
        alone: in words, what one node does in addition to plain training.
        title: name in tables and charts.
        source: publication of the formula.
        parameters: the coefficients.
        step: the formula of the step time.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    link_known_by: ClassVar[Literal["rings", "rate"] | None] = None
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
    def of_curve(cls, options: Mapping[str, Any], rows: "pd.DataFrame") -> "Law | None":
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
        return {**AXES, **coefficients, **{f.name: symbol_of(f) for f in fields(cls)}}

    @classmethod
    def steps_to(cls, formula: str) -> tuple[list[tuple[Symbol, Expr]], Expr]:
        """Return the parts that a formula uses, in order of evaluation, and the formula itself."""
        parts: list[tuple[Symbol, Expr]] = []
        expression = sympy.sympify(getattr(cls, formula))
        wanted = expression.free_symbols
        for name, symbol in reversed(list(PARTS.items())):
            if symbol in wanted:
                part = sympy.sympify(getattr(cls, name))
                parts.insert(0, (symbol, part))
                wanted = wanted | part.free_symbols
        return parts, expression

    def step_s(self, p: Values, at: At) -> Value:
        """Return step times in seconds, in the broadcast shape of `p` and `at`."""
        return self._seconds("step", p, at)

    def evaluate(self, p: Values, nodes: ArrayLike, batch: ArrayLike, payload: ArrayLike) -> Floats:
        """Return step times in seconds, in the broadcast shape of the arguments."""
        return np.asarray(self.step_s(p, At.of(nodes, batch, payload)), dtype=np.float64)

    def _seconds(self, formula: str, p: Values, at: At) -> Value:
        known: dict[str, Value] = {**p, **vars(at), **vars(self)}
        # mypy mistakes the class for an instance, which is unhashable in some dataclasses
        for name, arguments, function in _compiled(type(self), formula):  # type: ignore[arg-type]
            known[name] = function(*(known[argument] for argument in arguments))
        return known[formula] + 0.0 * at.nodes


@cache
def _compiled(law: type[Law], formula: str) -> list[tuple[str, list[str], Callable[..., Value]]]:
    """Return the parts that a formula uses and the formula itself, as functions of arrays.

    Each has its name, the names of its arguments (earlier parts are among them) and the function.
    """
    parts, expression = law.steps_to(formula)
    names = {symbol: name for name, symbol in {**law.symbols(), **PARTS}.items()}
    titled = [(names[symbol], part) for symbol, part in parts]
    compiled = []
    for name, each in [*titled, (formula, expression)]:
        used = sorted(each.free_symbols, key=str)
        function = sympy.lambdify(used, each, [FUNCTIONS, "numpy"])
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
