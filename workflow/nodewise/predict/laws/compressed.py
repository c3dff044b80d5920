"""The all-gather of compressed gradients."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import pandas as pd

from nodewise.predict.law import LAWS, Parameter, S, n, positive, setting
from nodewise.predict.parts_law import PartsLaw, alpha, beta

CODEC = Parameter(
    "k",
    "codec_seconds_per_byte",
    "s/B",
    "link",
    "encoding a byte of the gradient, or decoding one of a message",
    shrink=0.10,
)
rho = positive("rho")


@LAWS.register
@dataclass(frozen=True)
class CompressedAllGather(PartsLaw):
    """communicate = k·S·(1 + ρn) + (n−1)·(α + ρ·S·β): every node sends a coded gradient to all.

    `density` ρ is the size of a coded gradient as a share of S. It is known from the bytes counted
    on the network. A node encodes its own S bytes and decodes all n messages, including its own, so
    coding takes time even on one node. k depends on processor and codec. It can be estimated from
    communication measured on one node; from step times only as far as compute is known.
    """

    density: float = setting("rho", "1", "size of a coded gradient, as a share of S", least=1e-9)

    name = "compressed"
    alone = "encoding its gradient"
    title = "Compressed all-gather"
    source = (
        "N. Strom, Scalable distributed DNN training using commodity GPU cloud computing, "
        "Interspeech 2015"
    )
    parameters = (*PartsLaw.parameters, CODEC)
    communicate = CODEC.symbol * S * (1 + rho * n) + (n - 1) * (alpha + rho * S * beta)

    @classmethod
    def of_curve(cls, options: Mapping[str, Any], rows: pd.DataFrame) -> Self:
        """Return the law, with ρ from the bytes sent: the median of sent/((n−1)·S) on n > 1 nodes.

        ρ is 1 if no bytes were counted.
        """
        several = rows[(rows["nodes"] > 1) & (rows["bytes_sent_per_step"] > 0)]
        payload = (several["nodes"] - 1) * several["payload_bytes"].astype(float)
        sent = (several["bytes_sent_per_step"] / payload).median()
        return cls(float(sent) if sent > 0 else 1.0)
