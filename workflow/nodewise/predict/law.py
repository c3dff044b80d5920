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
from functools import cache, cached_property
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import pandas as pd
import sympy
from numpy.typing import ArrayLike
from sympy import Expr, Symbol

from nodewise.core.errors import UserError
from nodewise.core.registry import Registry
from nodewise.predict.points import Floats, Points

L = TypeVar("L", bound="Law")

n, b, S = sympy.symbols("n b S", nonnegative=True)
"""Nodes; batch per worker, in examples; payload, in bytes."""


def positive(letter: str) -> Symbol:
    """Return a symbol for a number that is at least 0."""
    return Symbol(letter, nonnegative=True)


SYMBOLS: Mapping[str, Symbol] = {
    "slowest": positive("m_n"),
    **{part: positive(f"t_{part}") for part in ("compute", "input", "wait", "communicate")},
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
    scope: Literal["model", "link"]
    description: str
    shrink: float | None = None

    @property
    def symbol(self) -> Symbol:
        """The symbol of the coefficient in formulas."""
        return positive(self.letter)

    @cached_property
    def meaning(self) -> str:
        """The letter and the description of the coefficient, for tables."""
        return f"{sympy.pretty(self.symbol, use_unicode=True)}: {self.description}"


def setting(
    letter: str, unit: str, description: str, *, least: float, default: object = MISSING
) -> Any:  # noqa: ANN401 (as `dataclasses.field`)
    """Return a dataclass field of a law for a known setting, which is not fitted.

    `least` is the lowest allowed value.
    """
    about = {"letter": letter, "unit": unit, "description": description, "least": least}
    return field(default=default, metadata=about)


COMPUTE: tuple[Parameter, ...] = (
    Parameter("c_0", "compute_fixed_s", "s", "model", "computing per step"),
    Parameter("c_1", "compute_per_example_s", "s", "model", "computing per example"),
)
JITTER: tuple[Parameter, ...] = (
    Parameter(
        "sigma",
        "jitter_s",
        "s",
        "model",
        "jitter (standard deviation) of a node's time",
        shrink=0.05,
    ),
    Parameter(
        "v",
        "jitter_share",
        "1",
        "link",
        "further jitter, relative to the computing time",
        shrink=0.05,
    ),
)
EXCESS_INPUT = Parameter(
    "e",
    "input_per_example_s",
    "s",
    "model",
    "reading an example that another node trains on",
    shrink=0.10,
)
LINK: tuple[Parameter, ...] = (
    Parameter("alpha", "latency_s", "s", "link", "latency per message"),
    Parameter("beta", "seconds_per_byte", "s/B", "link", "inverse bandwidth"),
)
c_0, c_1 = (p.symbol for p in COMPUTE)
sigma, v = (p.symbol for p in JITTER)
alpha, beta = (p.symbol for p in LINK)


@dataclass(frozen=True)
class Law:
    """Base class of laws: t = compute + wait + input + communicate, where each can be measured.

    - compute = c₀ + c₁·b.
    - wait = (σ + v·compute)·m_n. The times of n nodes have a standard deviation of σ + v·compute.
      The slowest node is expected m_n standard deviations above the mean: m_n is the mean of the
      largest of n standard normal values (H. A. David and H. N. Nagaraja, Order Statistics, 3rd
      ed., 2003). `slowest` approximates it to 0.1 % up to 65,536 nodes.
    - input = e·b·(n − 1), the cost of an input pipeline that is not sharded, in which each node
      reads the examples of all nodes. It is 0 if the pipeline is sharded.
    - communicate depends on the law. A law may change the other formulas, too.

    Known structure, such as the period of parameter averaging, is a `setting`. A subclass that adds
    settings must be a frozen dataclass; other subclasses need no decorator.

    Attributes:
        name: name of the law. Exchanges refer to it, and curves in their column `collective`.
        aliases: other names that curves may use for it.
        alone: in words, what one node does in addition to plain training.
        title: name in tables and charts.
        source: publication of the formula.
        parameters: the coefficients.
        step: the formula of the step time from its parts, with the symbols of `SYMBOLS`.
    """

    name: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    alone: ClassVar[str] = ""
    title: ClassVar[str]
    source: ClassVar[str]
    parameters: ClassVar[tuple[Parameter, ...]] = (*COMPUTE, *JITTER, EXCESS_INPUT, *LINK)
    slowest: ClassVar[Expr] = (
        0.872
        * sympy.log(n)
        / sympy.sqrt(1 + 0.421 * sympy.log(n) - 0.175 * sympy.sqrt(sympy.log(n)))
    )
    compute: ClassVar[Expr] = c_0 + c_1 * b
    wait: ClassVar[Expr] = (sigma + v * SYMBOLS["compute"]) * SYMBOLS["slowest"]
    input: ClassVar[Expr] = EXCESS_INPUT.symbol * b * (n - 1)
    communicate: ClassVar[Expr] = sympy.S.Zero
    step: ClassVar[Expr] = in_order(
        SYMBOLS["compute"], SYMBOLS["wait"], SYMBOLS["input"], SYMBOLS["communicate"]
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            least, value = each.metadata["least"], getattr(self, each.name)
            if not least <= value < np.inf:
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
    def formulas(cls) -> dict[str, Expr]:
        """Return the formulas of the parts, in order, then that of the step; m_n only if used."""
        formulas = {name: sympy.sympify(getattr(cls, name)) for name in (*SYMBOLS, "step")}
        used = set().union(*(formula.free_symbols for formula in formulas.values()))
        return {
            name: of for name, of in formulas.items() if name != "slowest" or SYMBOLS[name] in used
        }

    def seconds(self, values: Mapping[str, Any], points: Points) -> dict[str, Floats]:
        """Return the seconds of the step and of its parts, by name of the formula.

        Args:
            values: the value of each coefficient, by name: a number, or an array that broadcasts
                with the points. The results have the broadcast shape.
            points: the points.
        """
        settings = (getattr(self, each.name) for each in fields(self))
        coefficients = (values[p.name] for p in self.parameters)
        # mypy mistakes the class for an instance, which is unhashable in some dataclasses
        names, function = _compiled(type(self))  # type: ignore[arg-type]
        found = function(points.nodes, points.batch, points.payload, *coefficients, *settings)
        return {name: value + 0.0 * points.nodes for name, value in zip(names, found, strict=True)}

    def evaluate(
        self, values: Mapping[str, Any], nodes: ArrayLike, batch: ArrayLike, payload: ArrayLike
    ) -> Floats:
        """Return step times in seconds, in the broadcast shape of the arguments."""
        return self.seconds(values, Points.of(nodes, batch, payload))["step"]


@cache
def _compiled(law: type[Law]) -> tuple[list[str], Callable[..., list[Any]]]:
    """Return the names of a law's formulas, and the function that computes them all.

    Its arguments are n, b, S, the coefficients and the settings.
    """
    formulas, whole = law.formulas(), dict[Symbol, Expr]()
    for name, formula in formulas.items():
        whole[SYMBOLS.get(name, Symbol(name))] = formula.xreplace(whole)
    settings = [positive(each.metadata["letter"]) for each in fields(law)]
    arguments = [n, b, S, *(p.symbol for p in law.parameters), *settings]
    return [*formulas], sympy.lambdify(arguments, [*whole.values()], "numpy", cse=True)


def law_text(law: Law) -> str:
    """Return the text that `LAWS.make` reads: the law's name and its non-default settings.

    Example:
        >>> from nodewise.predict.laws.collectives import ParameterAveraging
        >>> law_text(ParameterAveraging(period=8))
        'averaging(period=8)'
    """
    unusual = [f for f in fields(law) if getattr(law, f.name) != f.default]
    settings = ", ".join(f"{f.name}={float(getattr(law, f.name)):.12g}" for f in unusual)
    return f"{law.name}({settings})" if settings else law.name


_SETTING = r"(\w+) *= *([-+.\deE]+)"
_TEXT = re.compile(rf"([\w-]+)(?:\(((?:{_SETTING}[, ]*)*)\))?")


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
        found = _TEXT.fullmatch(text)
        name, inside = (found[1], found[2] or "") if found else (text, "")
        laws = {known: law for law in self.values() for known in (law.name, *law.aliases)}
        if name not in laws:
            raise UserError(f"law {text[:60]}: unknown; allowed: {', '.join(sorted(laws))}")
        law, settings = laws[name], dict(re.findall(_SETTING, inside))
        try:
            return law(**{name: float(value) for name, value in settings.items()})
        except ValueError as error:
            raise UserError(f"law {text[:60]}: {error}") from None
        except TypeError:
            example = ", ".join(f"{each.name}=…" for each in fields(law))
            raise UserError(f"law {text[:60]}: must be written {law.name}({example})") from None


LAWS = _Laws("law", "nodewise.predict.laws", "nodewise.laws")
"""All laws by name. Some have settings, such as the `period` of parameter averaging."""
