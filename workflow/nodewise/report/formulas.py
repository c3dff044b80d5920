"""The formulas of laws as MathML, with what their symbols mean."""

from dataclasses import fields

import sympy
from markupsafe import Markup
from sympy import Expr, Symbol

from nodewise.predict.functions import ExpectedMaximum, Overlapped, QueuedTime
from nodewise.predict.law import LAWS, PARTS, Law
from nodewise.predict.parts_law import PartsLaw
from nodewise.report.html import text

_AXES = {
    "n": ("1", "nodes that train"),
    "b": ("1", "batch per worker, in examples"),
    "S": ("B", "payload: bytes of one gradient"),
}
_FUNCTIONS = (ExpectedMaximum, QueuedTime)
_STEP = Symbol("t")


def law_formula(name: str) -> Markup:
    """Return the formulas of a law, and the meaning and unit of each of their symbols.

    Raises:
        UserError: there is no such law.
    """
    law = LAWS.find(name)
    written = {_STEP: law.step}
    if issubclass(law, PartsLaw):
        written |= {symbol: getattr(law, part) for part, symbol in PARTS.items()}
    lines = Markup("").join(
        Markup('<p class="nw-formula">{}</p>\n').format(_math(sympy.Eq(symbol, e, evaluate=False)))
        for symbol, e in written.items()
    )
    used = set().union(*(sympy.sympify(e).atoms(Symbol, *_FUNCTIONS) for e in written.values()))
    rows = Markup("").join(
        Markup("<div><dt>{}</dt><dd>{}</dd></div>\n").format(_math(symbol), text(said))
        for symbol, said in _meanings(law, used)
    )
    return lines + Markup('<dl class="nw-facts nw-symbols">\n{}</dl>').format(rows)


def _meanings(law: type[Law], used: set[Expr]) -> list[tuple[Symbol, str]]:
    """Return the symbols of axes, coefficients, settings and functions that are used."""
    about = dict(_AXES)
    about |= {p.symbol.name: (p.unit, p.description) for p in law.parameters}
    about |= {
        f.metadata["letter"]: (f.metadata["unit"], f.metadata["description"]) for f in fields(law)
    }
    found = {symbol.name for symbol in used if isinstance(symbol, Symbol)}
    for one in _FUNCTIONS:
        if any(isinstance(each, one) for each in used):
            about[one.letter] = (one.unit, one.description)
            found.add(one.letter)
    return [
        (Symbol(letter), description if unit == "1" else f"{description} ({unit})")
        for letter, (unit, description) in about.items()
        if letter in found
    ]


def _math(expression: Expr) -> Markup:
    """Return an expression as MathML; functions without a closed form are letters."""
    for one in _FUNCTIONS:
        expression = expression.replace(one, lambda *_, of=one: Symbol(of.letter))
    shown = expression.replace(Overlapped, Overlapped.closed)
    written = sympy.mathml(shown, printer="presentation")
    plain = written.replace("&InvisibleTimes;", "&#8290;")  # a name that HTML does not know in XML
    return Markup("<math>{}</math>").format(Markup(plain))  # noqa: S704 (printed by SymPy)
