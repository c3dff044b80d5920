"""The all-gather of compressed gradients."""

from dataclasses import dataclass
from typing import ClassVar

from nodewise.predict.law import LAWS, At, Parameter, PartsLaw, Value, Values, require

CODEC = Parameter(
    "codec_seconds_per_byte",
    "s/B",
    "link",
    "k: encoding a byte of the gradient, or decoding one of a message",
    shrink=0.10,
)


@LAWS.register
@dataclass(frozen=True)
class CompressedAllGather(PartsLaw):
    """communicate = k·S·(1 + ρn) + (n−1)·(α + ρ·S·β): everybody sends a coded gradient to all.

    `density` ρ is the size of a coded gradient as a share of S; bytes counted on the wire tell it.
    A node encodes its own S bytes and decodes all n messages, its own as well, so that coding takes
    time on one node, too. k, of processor and codec, is seen in communication on one node, and in
    totals only as far as compute is known.
    """

    density: float

    name: ClassVar[str] = "compressed"
    title: ClassVar[str] = "Compressed all-gather"
    source: ClassVar[str] = (
        "N. Strom, Scalable distributed DNN training using commodity GPU cloud computing, "
        "Interspeech 2015"
    )
    parameters: ClassVar[tuple[Parameter, ...]] = (*PartsLaw.parameters, CODEC)

    def __post_init__(self) -> None:
        require(self.density > 0, "density", "above 0", self.density)

    def communicate_s(self, p: Values, at: At) -> Value:
        """Return k·S·(1 + ρn) + (n−1)·(α + ρ·S·β)."""
        n, coded = at.nodes, self.density * at.payload
        codec = p["codec_seconds_per_byte"] * (at.payload + n * coded)
        return codec + (n - 1) * (p["latency_s"] + coded * p["seconds_per_byte"])
