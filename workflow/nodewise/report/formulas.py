"""Write the formulas of laws as MathML, with the meanings of their symbols."""

from dataclasses import fields
from typing import Any

import sympy
from markupsafe import Markup
from sympy import Expr, Symbol
from sympy.printing.mathml import MathMLPresentationPrinter

from nodewise.predict.law import LAWS, PARTS, Law
from nodewise.report.html import text

_AXES = {
    "n": ("1", "nodes that train"),
    "b": ("1", "batch per worker, in examples"),
    "S": ("B", "payload: bytes of one gradient"),
    PARTS["slowest"].name: ("1", "mean of the largest of n standard normal values"),
}
_STEP = Symbol("t")


def law_formula(*names: str) -> Markup:
    """Return the formulas of laws as MathML, with the meaning and unit of each symbol.

    A formula that all of the laws share is written once. Other formulas have the titles of their
    laws beside them.

    Raises:
        UserError: there is no such law.
    """
    return formula_of(*map(LAWS.find, names))


def formula_of(*laws: type[Law]) -> Markup:
    """Return the same as `law_formula`, for laws that need not be registered."""
    written = [(symbol, e, law) for law in laws for symbol, e in _formulas(law)]
    titles: dict[tuple[Symbol, Expr], list[str]] = {}
    for symbol, expression, law in written:
        titles.setdefault((symbol, expression), []).append(law.title)
    lines = Markup("").join(
        equation(symbol, expression, "" if len(of) == len(laws) else ", ".join(of))
        for (symbol, expression), of in titles.items()
    )
    meanings = {
        symbol: meaning
        for law in laws
        for symbol, meaning in _meanings(law, [e for _, e, of in written if of is law])
    }
    rows = Markup("").join(
        Markup("<div><dt>{}</dt><dd>{}</dd></div>\n").format(_math(symbol), text(meaning))
        for symbol, meaning in meanings.items()
    )
    return lines + Markup('<dl class="nw-facts nw-symbols" data-search-exclude>\n{}</dl>').format(
        rows
    )


def law_source(name: str) -> Markup:
    """Return the source of a law, with the file of the law as origin of the numbers in it.

    Raises:
        UserError: there is no such law.
    """
    law = LAWS.find(name)
    file = f"workflow/{law.__module__.replace('.', '/')}.py"
    return Markup('<cite data-file="{}">{}</cite>').format(file, text(law.source))


def _formulas(law: type[Law]) -> list[tuple[Symbol, Expr]]:
    """Return the symbol and the expression of the step time and of each part that it uses."""
    formulas = law.formulas()
    step = formulas.pop("step")
    return [(_STEP, step), *((PARTS[name], formula) for name, formula in formulas.items())]


def equation(symbol: Symbol, expression: Expr, of: str = "") -> Markup:
    """Return `symbol` = `expression` as a paragraph; `of` is its label, if it is not empty."""
    written = _math(sympy.Eq(symbol, expression, evaluate=False))
    label = Markup('<span class="nw-formula__of">{}</span>').format(text(of)) if of else ""
    return Markup('<p class="nw-formula" tabindex="0" data-search-exclude>{}{}</p>\n').format(
        label, written
    )


def _meanings(law: type[Law], expressions: list[Expr]) -> list[tuple[Symbol, str]]:
    """Return the symbols that occur in the expressions, with their meanings and units.

    Symbols are axes, coefficients and settings.
    """
    about = dict(_AXES)
    about |= {p.symbol.name: (p.unit, p.description) for p in law.parameters}
    about |= {
        f.metadata["letter"]: (f.metadata["unit"], f.metadata["description"]) for f in fields(law)
    }
    used = set().union(*(one.free_symbols for one in expressions))
    letters = {symbol.name for symbol in used}
    return [
        (Symbol(letter), meaning if unit == "1" else f"{meaning} ({unit})")
        for letter, (unit, meaning) in about.items()
        if letter in letters
    ]


def _math(expression: Expr) -> Markup:
    """Return an expression as MathML."""
    written = _Printer().doprint(expression)
    # `&InvisibleTimes;` is not defined in XML, and SymPy writes minus signs as hyphens
    plain = written.replace("&InvisibleTimes;", "&#8290;").replace("<mo>-</mo>", "<mo>−</mo>")
    return Markup("<math>{}</math>").format(Markup(plain))  # noqa: S704 (printed by SymPy)


class _Printer(MathMLPresentationPrinter):  # type: ignore[misc]
    """Print MathML as SymPy does, except for sums and cases.

    Sums made by `in_order` keep their order, and the cases of a piecewise function are written
    below each other.
    """

    def _print_Add(self, expr: Expr, order: str | None = None) -> Any:  # noqa: ANN401, N802
        ordered = sympy.Add(*expr.args).args != expr.args
        return super()._print_Add(expr, order="none" if ordered else order)

    def _print_Mul(self, expr: Expr) -> Any:  # noqa: ANN401, N802
        """Print a product with its number in front; SymPy multiplies numbers into sums."""
        pairs = [arg.primitive() if arg.is_Add else (sympy.S.One, arg) for arg in expr.args]
        number = sympy.prod(content for content, _ in pairs)
        if number == 1:
            return super()._print_Mul(expr)
        factors = [number, *(rest for _, rest in pairs)]
        return super()._print_Mul(sympy.Mul(*factors, evaluate=False))

    def _print_Piecewise(self, expr: Expr) -> Any:  # noqa: ANN401, N802
        rows = [
            self._element(
                "mtr",
                self._element("mtd", self._print(value)),
                self._element("mtd", *self._condition(condition)),
            )
            for value, condition in expr.args
        ]
        return self._element("mrow", self._element("mo", "{"), self._element("mtable", *rows))

    def _condition(self, condition: Any) -> list[Any]:  # noqa: ANN401
        if condition == sympy.true:
            return [self._element("mtext", "otherwise")]
        return [self._element("mtext", "if\u00a0"), self._print(condition)]

    def _element(self, tag: str, *parts: Any) -> Any:  # noqa: ANN401
        element = self.dom.createElement(tag)
        for part in parts:
            text_of = self.dom.createTextNode
            element.appendChild(text_of(part) if isinstance(part, str) else part)
        return element
