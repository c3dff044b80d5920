"""Least squares with bounds at 0, for many right-hand sides at once.

Block principal pivoting: which coefficients are 0 is guessed, all that turn out wrong are exchanged
at once, and where that does not get better, only the last of them, which always ends (J. Kim and
H. Park, Fast nonnegative matrix factorization, SIAM J. Sci. Comput. 33(6), 2011, algorithm 2).
"""

import numpy as np
from scipy.linalg.lapack import dposv

from nodewise.overhead.formulas import Floats, Mask

_TRIES = 3  # exchanges of all that do not make fewer wrong, before only the last is exchanged
_ROUNDING = 1e-11  # of the terms that a gradient is the sum of


def solve(matrix: Floats, right: Floats, free: Mask | None = None) -> Floats:
    """Return x ≥ 0 that minimises |matrix·x − right|², for each column of `right`.

    Args:
        matrix: (rows, coefficients).
        right: (rows, columns).
        free: (coefficients,), where x is probably above 0; a good guess saves time.

    Returns:
        x, (coefficients, columns); if columns of the matrix depend on each other, one of many.
    """
    gram, wanted = matrix.T @ matrix, matrix.T @ right
    above = np.zeros(wanted.shape, bool)
    if free is not None:
        above |= free[:, None]
    x = _unbounded(gram, wanted, above)
    columns = len(above.T)
    tries, fewest = np.full(columns, _TRIES), np.full(columns, len(above) + 1)
    while True:
        slope = gram @ x - wanted
        doubt = _ROUNDING * (np.abs(gram) @ np.abs(x) + np.abs(wanted))
        wrong = np.where(above, x < 0, slope < -doubt)
        todo = wrong.any(axis=0)
        if not todo.any():
            return x
        count = wrong.sum(axis=0)
        better = count < fewest
        fewest = np.where(better, count, fewest)
        tries = np.where(better, _TRIES, tries - 1)
        above ^= np.where(tries >= 0, wrong, _last(wrong))
        x[:, todo] = _unbounded(gram, wanted[:, todo], above[:, todo])


def _last(wrong: Mask) -> Mask:
    """Return, of each column, the last that is wrong alone."""
    after = np.cumsum(wrong[::-1], axis=0)[::-1]
    return np.asarray(wrong & (after == 1))


def _unbounded(gram: Floats, wanted: Floats, above: Mask) -> Floats:
    """Return the solutions whose coefficients are 0 but `above`, without their bounds."""
    x = np.zeros_like(wanted)
    alike: dict[bytes, list[int]] = {}
    for column, chosen in enumerate(above.T):
        alike.setdefault(chosen.tobytes(), []).append(column)
    for columns in alike.values():
        chosen = np.flatnonzero(above[:, columns[0]])
        if len(chosen):
            _, found, singular = dposv(
                gram[chosen[:, None], chosen], wanted[chosen[:, None], columns]
            )
            if singular:  # to rounding, where columns are of very different sizes
                found = np.linalg.lstsq(
                    gram[chosen[:, None], chosen], wanted[chosen[:, None], columns]
                )[0]
            x[chosen[:, None], columns] = found
    return x
