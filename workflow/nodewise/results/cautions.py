"""Cautions: why numbers may mislead, as the column `flags` of tables has them."""

from collections.abc import Collection

OVERSUBSCRIBED = "more workers than cores"
NO_LINKS = "no network emulation"
SEVERAL_MACHINES = "launches on several machines"
_BETWEEN = "; "


def join_cautions(*cautions: str) -> str:
    """Return cautions as one text, each once; those that are empty are none."""
    return _BETWEEN.join(filter(None, dict.fromkeys(cautions)))


def cautions_of_launches(launches: Collection[str]) -> str:
    """Return the cautions of a point: those of its launches, if half of them or more have any.

    A median holds against fewer.
    """
    cautious = [of for of in launches if of]
    if 2 * len(cautious) < len(launches):
        return ""
    return join_cautions(*(one for of in cautious for one in of.split(_BETWEEN)))
