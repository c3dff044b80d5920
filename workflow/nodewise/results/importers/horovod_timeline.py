"""Import Horovod timelines: the time of a step spent exchanging gradients and waiting for others.

Source: https://horovod.readthedocs.io/en/stable/timeline_include.html
"""

import itertools
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.schema import MOST_JSON_BYTES, read_bytes
from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import starts_with

_WAIT, _SUM = "NEGOTIATE_ALLREDUCE", "ALLREDUCE"
_LIST = re.compile(rf'\A\s*\[\s*\{{.*?"{_WAIT}"', re.DOTALL)
_MICRO = 1e-6
_LEAST_STEPS = 3
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
        text = read_bytes(path, MOST_JSON_BYTES).decode("utf-8-sig", errors="replace")
        text = text.rstrip().rstrip(",")
        try:  # a program that was killed leaves the list open
            events = json.loads(text if text.endswith("]") else f"{text}]")
            waits, sums, ranks = _spans([event for event in events if isinstance(event, dict)])
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise UserError(f"{path}: is not a timeline ({error})") from None
        starts = sorted(start for start, _ in max(waits.values(), key=len, default=[]))
        if len(starts) < _LEAST_STEPS:
            raise UserError(f"{path}: has fewer than three steps")
        either = sorted(itertools.chain(sums, *waits.values()))
        rows = [
            {
                "step_time_s": (end - start) * _MICRO,
                "communicate_s": (exchange := _covered(sums, start, end)) * _MICRO,
                "wait_s": (_covered(either, start, end) - exchange) * _MICRO,
            }
            for start, end in itertools.pairwise(starts[1:])
        ]
        return pd.DataFrame(rows).assign(**({"nodes": len(ranks)} if ranks else {}))


IMPORTERS.add("horovod_timeline", HorovodTimeline())


def _spans(events: list[dict[str, Any]]) -> tuple[dict[Any, list[Span]], list[Span], set[str]]:
    """Return the spans of waiting by tensor, those of summing, and the names of the ranks."""
    waits, sums, ranks = defaultdict[Any, list[Span]](list), list[Span](), set[str]()
    opened = defaultdict[Any, list[tuple[str, float]]](list)
    for event in events:
        tensor, phase, name = event.get("pid"), event.get("ph"), str(event.get("name", ""))
        if phase == "B":
            opened[tensor].append((name, float(event["ts"])))
        elif phase == "E" and opened[tensor]:
            begun, start = opened[tensor].pop()
            if begun in (_WAIT, _SUM):
                spans = waits[tensor] if begun == _WAIT else sums
                spans.append((start, float(event["ts"])))
        elif phase in ("X", "i") and name.isdigit():
            ranks.add(name)
    return waits, sorted(sums), ranks


def _covered(spans: list[Span], start: float, end: float) -> float:
    """Return the time between `start` and `end` that at least one of the sorted spans covers."""
    total, until = 0.0, start
    for begun, ended in spans:
        low, high = max(begun, until), min(ended, end)
        if high > low:
            total, until = total + high - low, high
    return total
