"""Functions that laws use in formulas, each implemented in SymPy, NumPy and JavaScript.

A test checks that the NumPy and the JavaScript implementations agree.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np
import sympy
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]

_HALF_LINE = np.linspace(0.0, 9.0, 361)


class ExpectedMaximum(sympy.Function):  # type: ignore[misc]
    """m_n, the expected maximum of n standard normal values."""

    letter = "m_n"
    unit = "1"
    description = "mean of the largest of n standard normal values"
    javascript = """\
(() => {
  // erfc by its continued fraction far out, by its series near 0
  function erfc(z) {
    if (z < 2.5) {
      let term = z;
      let sum = z;
      for (let k = 1; k < 80; k += 1) {
        term *= (-z * z) / k;
        sum += term / (2 * k + 1);
      }
      return 1 - (2 / Math.sqrt(Math.PI)) * sum;
    }
    let tail = 0;
    for (let k = 60; k > 0; k -= 1) {
      tail = k / 2 / (z + tail);
    }
    return Math.exp(-z * z) / (Math.sqrt(Math.PI) * (z + tail));
  }
  const above = Array.from({ length: 361 }, (_, i) => 1 - 0.5 * erfc(i / 40 / Math.SQRT2));
  const known = new Map();
  return (n) => {
    if (!known.has(n)) {
      const values = above.map((p) => 1 - p ** n - (1 - p) ** n);
      const inner = values.slice(1, -1).reduce((sum, value) => sum + value, 0);
      known.set(n, (inner + (values[0] + values.at(-1)) / 2) / 40);
    }
    return known.get(n);
  };
})()"""


def expected_maximum(nodes: ArrayLike) -> Floats:
    """Return m_n, the expected maximum of n standard normal values; it is 0 for n = 1.

    Computed as ∫₀^∞ 1 − Φ(x)ⁿ − Φ(−x)ⁿ dx, which also holds for real n. For example m₂ = 0.564,
    m₃ = 0.846 and m₁₀ = 1.539. The usual approximation √(2 ln n) is far too large for few nodes.
    """
    n = np.asarray(nodes, dtype=np.float64)
    return np.array([_expected_maximum(x) for x in n.flat]).reshape(n.shape)


@lru_cache(maxsize=4096)
def _expected_maximum(n: float) -> float:
    above, below = (ndtr(x) ** n for x in (_HALF_LINE, -_HALF_LINE))
    return float(np.trapezoid(1 - above - below, _HALF_LINE))


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "ExpectedMaximum": expected_maximum,
}
"""The NumPy implementation of each function, by the name of its class."""
