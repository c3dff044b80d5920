"""Cautions: reasons why numbers may mislead, as in the column `flags` of tables."""

from collections.abc import Collection

OVERSUBSCRIBED = "more workers than cores"
NO_LINKS = "no network emulation"
SEVERAL_MACHINES = "launches on several machines"
_BETWEEN = "; "


def join_cautions(*cautions: str) -> str:
    """Join cautions to one text, without empty ones and duplicates."""
    return _BETWEEN.join(filter(None, dict.fromkeys(cautions)))


def cautions_of_launches(launches: Collection[str]) -> str:
    """Return the cautions of a point: those of its launches, if at least half of them have any.

    If fewer do, the median over launches is robust against them, and the point has none.
    """
    cautious = [of for of in launches if of]
    if 2 * len(cautious) < len(launches):
        return ""
    return join_cautions(*(one for of in cautious for one in of.split(_BETWEEN)))
