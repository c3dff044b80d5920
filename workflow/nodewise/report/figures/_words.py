"""Describe in words what figures show, for `alt` texts and titles."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from nodewise.core.units import write_number, write_percent
from nodewise.report.figures._encodings import kinds_of


def values_in_words(data: pd.DataFrame, value: str, unit: str) -> str:
    """List the values by number of nodes, for each kind, at the smallest and the largest batch.

    If several lines have such a point, the range of their values is listed.
    """
    sentences = []
    for kind in kinds_of(data):
        rows = data[data["kind"] == kind]
        batches = dict.fromkeys(rows["batch_per_worker"].agg(["min", "max"]))
        parts = [_over_nodes(rows[rows["batch_per_worker"] == at], value, unit) for at in batches]
        sentences.append(f"{kind.capitalize()}: {'; '.join(parts)}.")
    return " ".join(sentences)


def times(ratio: float) -> str:
    """Return a ratio in words, with two significant digits, such as `1.6 times`."""
    rounded = float(f"{ratio:.2g}")
    return f"{rounded:,.0f} times" if rounded >= 10 else f"{rounded:#.2g} times"


def percent(*shares: float) -> str:
    """Return a share, or the range between two shares, as percentages."""
    written = dict.fromkeys(write_percent(share).replace(" ", "\u00a0") for share in shares)
    return " to ".join(written)


def listed(shares: Mapping[Any, float], of: str, at: str = "at batch") -> str:
    """List shares in words, such as `80 % of a step at batch 64, 60 % at batch 128`.

    Args:
        shares: the shares, by the name that follows `at`.
        of: the text after the first share, such as ` of a step`.
        at: the text before each name.
    """
    words = [of, *("" for _ in shares)]
    return ", ".join(
        f"{percent(share)}{word} {at} {name}"
        for word, (name, share) in zip(words, shares.items(), strict=False)
    )


def _over_nodes(rows: pd.DataFrame, value: str, unit: str) -> str:
    """List the values of one batch, in the order of the nodes."""
    ends = rows.groupby("nodes")[value].agg(["min", "max"])
    written = [
        (nodes, dict.fromkeys((write_number(low, unit), write_number(high, unit))))
        for nodes, low, high in ends.itertuples()
    ]
    values = ", ".join(f"{' to '.join(numbers)} on {nodes}" for nodes, numbers in written)
    plural = "s" if ends.index.max() > 1 else ""
    return f"batch {rows['batch_per_worker'].iloc[0]}, {values} node{plural}"
