"""Is the Bayesian fit better than the quick one, and where? On synthetic truths, at 8 to 64 nodes.

The truths are the first of `interval_coverage.py`. Both fits see the same points. A fit by NumPyro
takes ten seconds to some minutes. Needs `make bayes`; python bench/bayes.py [TRUTHS], default 20.
"""

import sys
import time

sys.path.insert(0, "tests")

import numpy as np
import pandas as pd

import synthetic_curves as synthetic
from nodewise.core.progress import progress
from nodewise.predict import bayes
from nodewise.predict.fit import fit
from nodewise.predict.law import At

SEED, DRAWS = 1, 400
FITS = {"quick": fit, "bayes": bayes.fit}
GROUPS = {"measured on nodes": "nodes", "parts measured": "parts", "noise": "noise"}


def compare(number: int) -> list[dict[str, object]]:
    """Return a row per fit and number of nodes: the log error, the log width, whether it holds."""
    trial = synthetic.trial(SEED, number)
    at = At.of(synthetic.ASKED, synthetic.TYPICAL, trial.truth.payload)
    exact = trial.truth.step_s(synthetic.ASKED, synthetic.TYPICAL)
    rows: list[dict[str, object]] = []
    for name, fit_points in FITS.items():
        began = time.perf_counter()
        fitted = fit_points(trial.truth.law, trial.points, draws=DRAWS)
        seconds = time.perf_counter() - began
        low, high = fitted.evaluate_interval(at)
        value = fitted.evaluate(at)
        rows += [
            {
                "fit": name,
                "nodes": f"{trial.design.nodes}",
                "parts": trial.design.parts,
                "noise": trial.design.noise,
                "error": abs(float(np.log(value[i] / exact[i]))),
                "width": float(np.log(high[i] / low[i])),
                "covered": bool(low[i] <= exact[i] <= high[i]),
                "seconds": seconds,
            }
            for i in range(len(exact))
        ]
    return rows


def main() -> None:
    truths = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    rows = []
    with progress("truths", truths) as advance:
        for number in range(truths):
            rows += compare(number)
            advance(1)
    table = pd.DataFrame(rows)
    means = ["error", "width", "covered", "seconds"]
    print(table.groupby("fit")[means].agg(["mean", "median"]).round(3).to_string())
    for title, column in GROUPS.items():
        print(f"\nby {title}:\n{table.groupby([column, 'fit'])[means].mean().round(3).to_string()}")


if __name__ == "__main__":
    main()
