"""Generate JavaScript from the formulas of laws, for the page "Your case"."""

import json
from dataclasses import MISSING, fields
from typing import Any

from sympy import Expr, jscode

from nodewise.predict.law import LAWS, PARTS, Law
from nodewise.predict.parts_law import PartsLaw

_SCRIPT = """\
/* Generated from the formulas in workflow/nodewise/predict/laws. Seconds, bytes, examples. */
"use strict";
(() => {{
  const laws = {{
{laws}
  }};

  /** Return the parts of a step and the step itself, in seconds, by a law with its `settings`. */
  const step = (law, values, nodes, batch, payload, settings = {{}}) =>
    laws[law]({{ ...settings, ...values, nodes, batch, payload }});

  /** What one node does besides plain training, in words; by law. */
  const alone = {alone};

  window.nodewiseLaws = {{ alone, step }};
}})();
"""


def laws_script() -> str:
    """Return a script that sets `window.nodewiseLaws`.

    It has the laws that split a step into parts (`PartsLaw`).
    """
    shown = [law for law in LAWS.values() if issubclass(law, PartsLaw)]
    return _SCRIPT.format(
        laws="\n".join(f"    {json.dumps(law.name)}: {_function(law)}," for law in shown),
        alone=json.dumps({law.name: law.alone for law in shown if law.alone}),
    )


def _function(law: type[PartsLaw]) -> str:
    lines = [f"const {s.name} = {_known(law, name)};" for name, s in law.symbols().items()]
    parts = {name: symbol.name for name, symbol in PARTS.items()}
    lines += [f"const {parts[name]} = {_written(getattr(law, name))};" for name in PARTS]
    results = ", ".join(f"{name}: {symbol}" for name, symbol in parts.items())
    lines.append(f"return {{ {results}, step: {_written(law.step)} }};")
    return "(known) => {\n      " + "\n      ".join(lines) + "\n    }"


def _known(law: type[Law], name: str) -> str:
    """Return the JavaScript expression for the value of a symbol.

    A coefficient that is not given is 0; a setting that is not given has its declared default.
    """
    defaults: dict[str, Any] = {one.name: one.default for one in fields(law)}
    if name in defaults:
        default = "" if defaults[name] is MISSING else f" ?? {float(defaults[name]):g}"
        return f"Number(known.{name}{default})"
    return f"known.{name} ?? 0"


def _written(expression: Expr) -> str:
    return " ".join(str(jscode(expression, order="none")).split())
