"""Speeds of well-known devices at training ResNet50, relative to one CPU core of our machine.

Published throughputs are for images of 224 × 224 pixels, ours for 32 × 32. The operations of
convolutions grow with the number of pixels, so one published image counts as 49 of ours. The
factors are rough. Smaller models gain less because their kernels do not fill a device.
"""

from collections.abc import Mapping
from typing import NamedTuple

SOURCES: Mapping[str, str] = {
    "a benchmark of Horovod": "https://github.com/msalvaris/BatchAIHorovodBenchmark",
    "NVIDIA": "https://github.com/NVIDIA/DeepLearningExamples/tree/master"
    "/PyTorch/Classification/ConvNets/resnet50v1.5",
}
"""The address of each source. Curves of the first one are also in scaling_curves.csv."""


class Device(NamedTuple):
    """A device, its published throughput of ResNet50 in ImageNet images per second, and the source.

    The device computes in float32 unless the title says otherwise.
    """

    title: str
    pictures_per_s: float
    source: str

    @property
    def times_as_fast(self) -> float:
        """The speed relative to one of our cores, rounded to two digits."""
        return float(f"{self.pictures_per_s / _OURS_PER_S:.2g}")


DEVICES = (
    Device("NVIDIA K80, one of its two processors", 52, "a benchmark of Horovod"),
    Device("NVIDIA P40", 170, "a benchmark of Horovod"),
    Device("NVIDIA P100", 228, "a benchmark of Horovod"),
    Device("NVIDIA V100", 343, "a benchmark of Horovod"),
    Device("NVIDIA A100, TF32", 938, "NVIDIA"),
    Device("NVIDIA A100, mixed precision", 2470, "NVIDIA"),
)
OUR_PICTURES_PER_S = 84.0
"""Images of 32 × 32 pixels per second, for one core at batch 64, in committed ResNet50 records."""
_OURS_PER_S = OUR_PICTURES_PER_S / (224 / 32) ** 2
