"""Measure how many 90 % intervals contain the truth, and how wide they are.

The target is 85–95 % of 500 synthetic truths. Each truth is a law with random coefficients,
measured on a few nodes with noise. Its law is fitted and then predicts the true step time on 8, 16
and 64 nodes, at one of the measured batches and at one that was not measured. The same seed gives
the same table.
"""

import sys

sys.path.insert(0, "tests")

import pandas as pd

import synthetic_curves as synthetic

TRUTHS, SEED, DRAWS = 500, 1, 400
GROUPS = {
    "asked on": ["asked"],
    "law": ["law"],
    "measured on nodes": ["nodes", "parts"],
    "batches": ["batches", "parts"],
    "noise": ["noise", "parts"],
    "misfit": ["misfit", "parts"],
}


def trials() -> pd.DataFrame:
    """Return one row per truth, number of nodes asked and batch asked."""
    rows = []
    for number in range(TRUTHS):
        trial = synthetic.trial(SEED, number)
        for batch in (synthetic.TYPICAL, synthetic.UNMEASURED):
            known = batch in trial.design.batches
            rows += [
                {"batch": "measured" if known else "new", **row}
                for row in synthetic.ask(trial, trial.truth.law, batch, DRAWS)
            ]
    return pd.DataFrame(rows)


def summary(rows: pd.DataFrame, by: list[str]) -> str:
    """Return a table with, per group, the coverage, widths and errors of the intervals."""
    grouped = rows.groupby(by)
    table = pd.DataFrame(
        {
            "intervals": grouped.size(),
            "covered": grouped["covered"].mean(),
            "above": grouped["above"].mean(),
            "below": grouped["below"].mean(),
            "median width": grouped["width"].median(),
            "median error": grouped["error"].median(),
            "p90 error": grouped["error"].quantile(0.9),
        }
    )
    return table.round(3).to_string()


def main() -> None:
    rows = trials()
    print(summary(rows, ["batch"]), end="\n\n")
    own = rows[rows["batch"] == "measured"]
    for title, by in GROUPS.items():
        print(f"by {title}:\n{summary(own, by)}\n")


if __name__ == "__main__":
    main()
