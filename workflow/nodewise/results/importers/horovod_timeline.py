"""Import Horovod timelines: the time of a step spent exchanging gradients and waiting for others.

Source: https://horovod.readthedocs.io/en/stable/timeline_include.html
"""

import itertools
import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.schema import MOST_JSON_BYTES, read_bytes
from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import starts_with

_WAIT, _SUM = "NEGOTIATE_ALLREDUCE", "ALLREDUCE"
_LIST = re.compile(rf'\A\s*\[\s*\{{.*?"{_WAIT}"', re.DOTALL)
_MICRO = 1e-6
Span = tuple[float, float]


class HorovodTimeline:
    """Importer of Horovod timelines.

    Each step sums every gradient once, so a step lasts from one negotiation of a gradient to its
    next one. During a negotiation each rank reports that it is ready, which gives the number of
    ranks.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the file is a list that names a negotiation."""
        return starts_with(path, _LIST)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per step, without the first.

        Raises:
            UserError: the file is damaged, or has fewer than three steps.
        """
        spans, ranks = _spans(path, _events(path))
        waits, sums = spans[_WAIT], spans[_SUM]
        counts = Counter(tensor for tensor, _ in waits)
        if not counts or max(counts.values()) < 3:
            raise UserError(f"{path}: has fewer than three steps")
        ((first, _),) = counts.most_common(1)
        starts = sorted(span[0] for tensor, span in waits if tensor == first)[1:]
        rows = []
        for start, end in itertools.pairwise(starts):
            exchange = _union(sums, start, end)
            either = _union(waits + sums, start, end)
            rows.append(
                {
                    "nodes": len(ranks) or np.nan,
                    "step_time_s": (end - start) * _MICRO,
                    "communicate_s": exchange * _MICRO,
                    "wait_s": (either - exchange) * _MICRO,
                }
            )
        return pd.DataFrame(rows).dropna(axis="columns")


IMPORTERS.add("horovod_timeline", HorovodTimeline())


def _events(path: Path) -> list[dict[str, Any]]:
    text = (
        read_bytes(path, MOST_JSON_BYTES).decode("utf-8-sig", errors="replace").rstrip().rstrip(",")
    )
    try:  # a program that was killed leaves the list open
        events = json.loads(text if text.endswith("]") else f"{text}]")
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path}: is not JSON ({error})") from None
    return [event for event in events if isinstance(event, dict)]


def _spans(
    path: Path, events: list[dict[str, Any]]
) -> tuple[dict[str, list[tuple[Any, Span]]], set[str]]:
    """Return the spans of each phase with their tensors, and the names of the ranks."""
    spans: dict[str, list[tuple[Any, Span]]] = defaultdict(list)
    opened: dict[Any, list[tuple[str, float]]] = defaultdict(list)
    ranks: set[str] = set()
    for event in events:
        tensor, phase, at = event.get("pid"), event.get("ph"), event.get("ts")
        name = str(event.get("name", ""))
        try:
            if phase == "B":
                opened[tensor].append((name, float(at)))  # type: ignore[arg-type]
            elif phase == "E" and opened[tensor]:
                begun, start = opened[tensor].pop()
                spans[begun].append((tensor, (start, float(at))))  # type: ignore[arg-type]
            elif phase in ("X", "i") and name.isdigit():
                ranks.add(name)
        except (TypeError, ValueError, OverflowError):
            raise UserError(f"{path}: an event {name[:40]!r} has no time") from None
    return spans, ranks


def _union(spans: list[tuple[Any, Span]], start: float, end: float) -> float:
    """Return the time between `start` and `end` that at least one of the spans covers."""
    total, until = 0.0, start
    for begun, ended in sorted(span for _, span in spans):
        low, high = max(begun, until), min(ended, end)
        if high > low:
            total, until = total + high - low, high
    return total
