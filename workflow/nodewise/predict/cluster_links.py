"""Links of real clusters, within a node and between nodes: by name, by rate, or as measured.

Names and rates are in `cluster_constants.yaml`. A link can also be a file: a calibration, or what
nccl-tests, rccl-tests or OSU's `osu_allreduce` printed. Then the user's own link decides.
"""

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Literal

import numpy as np

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes, read_json, read_tree
from nodewise.core.units import counted
from nodewise.results.calibration import Calibration, ring_times

MESSAGE_BYTES = 64e6
"""Frameworks send gradients in all-reduces of 25 to 128 MB; bandwidths are taken at this size."""
CARD = 50e9
"""Bytes per second of the fastest card of the published all-reduces: 400 Gbit/s."""

_MOST_LOG_BYTES = 10_000_000
_SLOW = 1.25e9  # bytes per second: 10 Gbit/s
_LEAST_RATE, _MOST_RATE = 1e2, 1e14  # bytes per second
_GBIT = re.compile(r" ?(?:Gbit(?:/s)?|Gb/s|Gbps|GbE)")  # GB/s is bytes
_RATE = re.compile(r"(?:(\d{1,3})x)?(\d{1,9}(?:\.\d{1,9})?)(mbit|gbit|gbyte)(?:-(tcp|rdma|efa))?")
_NUMBER = r"\d+(?:\.\d+)?"
_NCCL_ROW = re.compile(
    rf"\s*(\d+)\s+\d+\s+\w+\s+(?!none)\w+(?:\s+-?\d+)?\s+{_NUMBER}\s+{_NUMBER}\s+({_NUMBER})"
    r"(?:\s+(\S+))?\s"
)
_OSU_ROW = re.compile(rf"\s*(\d+)\s+({_NUMBER})\s*(?:{_NUMBER}\s+{_NUMBER}\s+\d+)?\s*")
_HOST = re.compile(r"#\s+Rank\s+\d+.*?\bon\s+(\S+)\s+device")
_OSU_RANKS = re.compile(r"#.*?\b(?:np|ranks|processes)\s*[=:]?\s*(\d+)", re.IGNORECASE)

Level = Literal["within", "between"]
Link = Mapping[str, float]
"""A link of one device (within a node) or of one node (between nodes), in one direction: what it
may be, equally likely. These are families of links, which have constants of their own, with their
nominal or measured rates in bytes per second."""


@cache
def constants() -> Mapping[str, Any]:
    """Return the constants of links and clusters."""
    return dict(read_tree(Path(__file__).with_name("cluster_constants.yaml")))


def read_link(level: Level, text: str) -> Link:
    """Return the link that a text describes: a name, a rate with its transport, or a file.

    Examples: `nvlink2` or `31.5GB/s` within a node; `100gbit-rdma`, `8x400gbit-rdma` (eight cards),
    `25gbit-tcp` or `400gbit-efa` between nodes. There, without a transport, both are possible. RDMA
    faster than one card is `rails`: each device has a card, or shares one with few others, and
    all-reduces achieve more of the rate.

    Raises:
        UserError: the text is none of these.
    """
    named = constants()[level]
    if (name := link_name(text)) in named:
        return {family: 1e9 * rate for family, rate in named[name].items()}
    if found := _RATE.fullmatch(_GBIT.sub("gbit", text).replace("GB/s", "gbyte").lower()):
        unit = {"mbit": 1e6 / 8, "gbit": 1e9 / 8, "gbyte": 1e9}[found[3]]
        rate, transport = int(found[1] or 1) * float(found[2]) * unit, found[4]
        cards = "rails" if rate > CARD else "rdma"
        families = {None: ("tcp", cards), "tcp": ("tcp",)}.get(transport, (cards,))
        if level == "within":
            families = () if transport else ("pcie",)
        if families and _LEAST_RATE <= rate <= _MOST_RATE:
            return dict.fromkeys(families, rate)
    if Path(text).is_file():
        return _measured(level, Path(text))
    raise UserError(
        f"link {text[:60]}: must be {', '.join(named)}, a rate such as 31.5GB/s (within a node) or "
        "8x400gbit-rdma (between nodes), a file of `nodewise calibrate`, or what nccl-tests, "
        "rccl-tests or osu_allreduce printed"
    )


def link_name(text: str) -> str:
    """Return a name of a link as it is listed; published cases write some otherwise."""
    return text.lower().replace("_", "-").replace("nop2p", "no-p2p")


def _measured(level: Level, path: Path) -> Link:
    """Return the link that a file measured."""
    if path.suffix == ".json":
        calibration = read_json(Calibration, path, "a link needs a file of `nodewise calibrate`")
        rings = ring_times(calibration)
        if not rings:
            raise UserError(f"{path}: no all-reduce tells a rate: it needs two nodes or more")
        most = max(row["payload_bytes"] for row in rings)
        largest = [row for row in rings if row["payload_bytes"] == most]
        return {"calibrated": median(row["sent_bytes"] / row["seconds"] for row in largest)}
    log = read_bytes(path, _MOST_LOG_BYTES).decode(errors="replace")
    hosts = len(set(_HOST.findall(log)))
    right = "between" if hosts > 1 else "within"
    if hosts and level != right:
        ran = f"its processes ran on {counted(hosts, 'host')}"
        raise UserError(f"{path}: {ran}: give it as --{right}, not as --link or --{level}")
    sizes, rates = np.log(bus_bandwidths(log, path)).T
    rate = float(np.exp(np.interp(np.log(MESSAGE_BYTES), sizes, rates)))
    # what limits a slow link limits training alike
    return {"all_reduces" if rate > _SLOW else "calibrated": rate}


def bus_bandwidths(text: str, path: Path) -> list[tuple[float, float]]:
    """Return message sizes in bytes, ascending, with measured bus bandwidths in bytes per second.

    nccl-tests and rccl-tests print the bus bandwidth. OSU prints the time t of an all-reduce of V
    bytes by n processes; its bus bandwidth is 2(n−1)/n·V/t.

    Raises:
        UserError: the text has no such rows, or does not say how many processes took part.
    """
    found = [match for match in map(_NCCL_ROW.match, text.splitlines()) if match]
    if any(row[3] not in (None, "0", "N/A") and float(row[3]) >= 1 for row in found):
        raise UserError(f"{path}: its column #wrong says that the all-reduces failed")
    rows = [(float(row[1]), 1e9 * float(row[2])) for row in found]
    if not rows and "allreduce" in text.lower():
        ranks = _OSU_RANKS.search(text)
        if not ranks or int(ranks[1]) < 2:
            raise UserError(f"{path}: does not say how many processes: add a line `# np = 16`")
        share = 2 * (1 - 1 / int(ranks[1]))
        found = [match for match in map(_OSU_ROW.fullmatch, text.splitlines()) if match]
        timed = [(float(row[1]), 1e-6 * float(row[2])) for row in found]
        rows = [(size, share * size / seconds) for size, seconds in timed if seconds > 0]
    rows = sorted(row for row in rows if min(row) > 0)
    if not rows:
        raise UserError(f"{path}: has no row of an all-reduce of nccl-tests, rccl-tests or OSU")
    if rows[-1][0] < MESSAGE_BYTES / 8:
        raise UserError(f"{path}: its largest message has {rows[-1][0]:,.0f} bytes, needs 8 MB")
    return rows
