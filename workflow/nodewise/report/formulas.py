"""Write the formulas of laws as MathML, with the meanings of their symbols."""

from typing import Any

import sympy
from markupsafe import Markup
from sympy import Expr, Symbol
from sympy.printing.mathml import MathMLPresentationPrinter

from nodewise.predict.law import LAWS, SYMBOLS, Law
from nodewise.report.html import text

_AXES = {
    "n": ("1", "nodes that train"),
    "b": ("1", "batch per worker, in examples"),
    "S": ("B", "payload: bytes of one gradient"),
    SYMBOLS["slowest"].name: ("1", "mean of the largest of n standard normal values"),
}
_LINE = Markup('<p class="nw-formula" tabindex="0" data-search-exclude>{}{}{}</p>\n')
_LIST = Markup('<dl class="nw-facts nw-symbols" data-search-exclude>\n{}</dl>')
_MEANING = Markup("<div><dt>{}</dt><dd>{}</dd></div>\n")


def law_formula(*names: str) -> Markup:
    """Return the formulas of laws as MathML, with the meaning and unit of each symbol.

    A formula that all of the laws share is written once. Other formulas have the titles of their
    laws beside them.

    Raises:
        UserError: there is no such law.
    """
    laws = [LAWS.find(name) for name in names]
    titles: dict[tuple[Symbol, Expr], list[str]] = {}
    meanings: dict[Symbol, str] = {}
    for law in laws:
        formulas = law.formulas
        named = {SYMBOLS.get(name, Symbol("t")): formulas[name] for name in ("step", *formulas)}
        for formula in named.items():
            titles.setdefault(formula, []).append(law.title)
        used = {symbol.name for formula in named.values() for symbol in formula.free_symbols}
        meanings |= {Symbol(one): told for one, told in _meanings(law).items() if one in used}
    lines = [
        _equation(*formula, of="" if len(of) == len(laws) else ", ".join(of))
        for formula, of in titles.items()
    ]
    symbols = [_MEANING.format(_math(symbol), text(of)) for symbol, of in meanings.items()]
    return Markup("").join([*lines, _LIST.format(Markup("").join(symbols))])


def law_source(name: str) -> Markup:
    """Return the source of a law, with the file of laws as origin of the numbers in it.

    Raises:
        UserError: there is no such law.
    """
    file = "workflow/nodewise/predict/laws.yaml"
    return Markup('<cite data-file="{}">{}</cite>').format(file, text(LAWS.find(name).source))


def _equation(symbol: Symbol, expression: Expr, *, of: str = "") -> Markup:
    """Return `symbol` = `expression` as a paragraph, or one for each case of a piecewise function.

    `of` is a label in front of the equation; it may be empty.
    """
    label = Markup('<span class="nw-formula__of">{}</span>').format(text(of)) if of else ""
    lines = []
    for value, case in expression.args if expression.is_Piecewise else [(expression, None)]:
        where = "" if case is None else Markup(" if {}").format(_math(case))
        where = " otherwise" if case == sympy.true else where
        lines.append(_LINE.format(label, _math(sympy.Eq(symbol, value, evaluate=False)), where))
    return Markup("").join(lines)


def _meanings(law: Law) -> dict[str, str]:
    """Return the meanings of the symbols that a law may use: axes, coefficients and settings."""
    named = [*law.parameters, *law.settings.values()]
    about = _AXES | {each.letter: (each.unit, each.description) for each in named}
    return {
        letter: meaning if unit == "1" else f"{meaning} ({unit})"
        for letter, (unit, meaning) in about.items()
    }


def _math(expression: Expr) -> Markup:
    """Return an expression as MathML."""
    written = _InOrder().doprint(expression)
    # `&InvisibleTimes;` is not defined in XML, and SymPy writes minus signs as hyphens
    plain = written.replace("&InvisibleTimes;", "&#8290;").replace("<mo>-</mo>", "<mo>−</mo>")
    return Markup("<math>{}</math>").format(Markup(plain))  # noqa: S704 (printed by SymPy)


class _InOrder(MathMLPresentationPrinter):  # type: ignore[misc]
    """Print MathML as SymPy does, but keep the order of sums that `in_order` made.

    Numbers stand in front of products: SymPy multiplies them into sums.
    """

    def _print_Add(self, expr: Expr, order: str | None = None) -> Any:  # noqa: ANN401, N802
        ordered = sympy.Add(*expr.args).args != expr.args
        return super()._print_Add(expr, order="none" if ordered else order)

    def _print_Mul(self, expr: Expr) -> Any:  # noqa: ANN401, N802
        return super()._print_Mul(sympy.factor_terms(expr, clear=False))
