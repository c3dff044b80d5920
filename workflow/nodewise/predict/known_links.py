"""What is known of a link before any step is fitted: the rate that is configured.

Rates are in the node's own time: a link of 100 Mbit/s counts as 500 Mbit/s for a node whose time
passes five times slower.
"""

import re
from typing import NamedTuple

PAYLOAD_SHARE = 1448 / 1514
"""The share of payload in a full Ethernet frame; the rest are Ethernet, IP and TCP headers."""
_LABEL = re.compile(
    r"(?P<share>[\d.]+) core(?: \(.*?\))?, (?P<mbit>[\d.]+) Mbit/s(?:, (?P<ms>[\d.]+) ms)?(?:, .*)?"
)


class ConfiguredLink(NamedTuple):
    """The link of an emulated cluster, in the node's own time.

    Attributes:
        rate_bit_s: its rate in bit/s.
        latency_s: its one-way latency in seconds.
    """

    rate_bit_s: float
    latency_s: float

    @property
    def seconds_per_byte(self) -> float:
        """Seconds per byte of payload, including headers of full frames."""
        return 8 / (self.rate_bit_s * PAYLOAD_SHARE)


def link_of(cluster: str) -> ConfiguredLink | None:
    """Return the link of a cluster from its label, or None if it is not an emulated cluster.

    Example:
        >>> link_of("0.2 core, 100 Mbit/s")
        ConfiguredLink(rate_bit_s=500000000.0, latency_s=0.0)
    """
    found = _LABEL.fullmatch(cluster)
    if found is None:
        return None
    share = float(found["share"])
    return ConfiguredLink(1e6 * float(found["mbit"]) / share, float(found["ms"] or 0) / 1e3 * share)
