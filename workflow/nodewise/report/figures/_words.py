"""What a figure shows, in words: its picture for those who do not see it, and parts of titles."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from nodewise.core.units import write_number, write_percent
from nodewise.report.figures._encodings import kinds_of


def values_in_words(data: pd.DataFrame, value: str, unit: str) -> str:
    """Say, kind by kind, the values over the nodes at the smallest and at the largest batch.

    Where several lines have such a point it is the least and the greatest of them.
    """
    sentences = []
    for kind in kinds_of(data):
        rows = data[data["kind"] == kind]
        batches = dict.fromkeys(rows["batch_per_worker"].agg(["min", "max"]))
        parts = [_over_nodes(rows[rows["batch_per_worker"] == at], value, unit) for at in batches]
        sentences.append(f"{kind.capitalize()}: {'; '.join(parts)}.")
    return " ".join(sentences)


def times(ratio: float) -> str:
    """Return a ratio in words, with two digits."""
    rounded = float(f"{ratio:.2g}")
    return f"{rounded:,.0f} times" if rounded >= 10 else f"{rounded:#.2g} times"


def percent(*shares: float) -> str:
    """Return a share, or from which to which, in words."""
    written = dict.fromkeys(write_percent(share).replace(" ", "\u00a0") for share in shares)
    return " to ".join(written)


def listed(shares: Mapping[Any, float], of: str, at: str = "at batch") -> str:
    """Return shares in words, each with what it is `at`; the first says what they are `of`."""
    words = [of, *("" for _ in shares)]
    return ", ".join(
        f"{percent(share)}{word} {at} {name}"
        for word, (name, share) in zip(words, shares.items(), strict=False)
    )


def _over_nodes(rows: pd.DataFrame, value: str, unit: str) -> str:
    """Say the values of the rows of one batch, in the order of the nodes."""
    ends = rows.groupby("nodes")[value].agg(["min", "max"])
    written = [
        (nodes, dict.fromkeys((write_number(low, unit), write_number(high, unit))))
        for nodes, low, high in ends.itertuples()
    ]
    values = ", ".join(f"{' to '.join(numbers)} on {nodes}" for nodes, numbers in written)
    plural = "s" if ends.index.max() > 1 else ""
    return f"batch {rows['batch_per_worker'].iloc[0]}, {values} node{plural}"
