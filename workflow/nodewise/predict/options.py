"""Parse the options of `predict`, `optimum`, `next` and `forecast`."""

import re

import numpy as np

from nodewise.core.errors import UserError
from nodewise.results.csv_file import parse_number
from nodewise.results.curves import MOST_NODES

MOST_NUMBERS = 1_000
_DURATION = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_nodes(text: str) -> list[int]:
    """Parse numbers of nodes such as `1-64`, `1,2,4` or `64`; return them in ascending order.

    Raises:
        UserError: the text has another form, or names numbers that are not allowed or too many.
    """
    numbers: set[int] = set()
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?", part, re.ASCII)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        if not 1 <= first <= last <= MOST_NODES or last - first >= MOST_NUMBERS:
            raise UserError(
                f"--nodes {text[:40]}: must be at most {MOST_NUMBERS:,} numbers from 1 to "
                f"{MOST_NODES:,} and ranges, such as 1-64 or 1,2,4,8-16"
            )
        numbers |= set(range(first, last + 1))
    return sorted(numbers)


def parse_batches(text: str | None) -> list[float]:
    """Parse batches of a device such as `16,32,64`; none without a text.

    Raises:
        UserError: the text has another form.
    """
    try:
        return [parse_number(part, 1, 1e15) for part in (text or "").split(",") if part.strip()]
    except ValueError:
        raise UserError(f"--batches {text!s:.40}: must be numbers such as 16,32,64") from None


def parse_deadline(text: str | None) -> float | None:
    """Parse a time such as `90`, `90s`, `30min`, `2h` or `1d`; return seconds.

    Raises:
        UserError: the text is not a time.
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d+\.?\d*|\.\d+)\s*(s|min|h|d)?\s*", text, re.ASCII)
    seconds = float(found[1]) * _DURATION[found[2] or "s"] if found else np.inf
    if seconds > 1e15:
        raise UserError(f"--deadline {text[:40]}: must be a time such as 90s, 30min, 2h or 1d")
    return seconds


def parse_price(text: str | None) -> tuple[float | None, str]:
    """Parse a price of a node-hour such as `2.5` or `2.5 EUR`; return it and its currency.

    Without a text there is no price.

    Raises:
        UserError: the text is not a number with at most a word after it.
    """
    if text is None:
        return None, "currency"
    number, _, currency = text.strip().partition(" ")
    try:
        return float(number), currency.strip()[:20] or "currency"
    except ValueError:
        raise UserError(f"--price {text[:40]}: must be a number such as 2.5 or '2 EUR'") from None
