"""How many times as fast as one core of ours well-known devices are at training ResNet50.

Published throughputs are of pictures of 224 × 224 pixels, ours of 32 × 32. The operations of
convolutions grow with the pixels: one of their pictures counts as 49 of ours. The factors are
rough, and smaller models gain less, since their kernels do not fill a device.
"""

from collections.abc import Mapping
from typing import NamedTuple

SOURCES: Mapping[str, str] = {
    "a benchmark of Horovod": "https://github.com/msalvaris/BatchAIHorovodBenchmark",
    "NVIDIA": "https://github.com/NVIDIA/DeepLearningExamples/tree/master"
    "/PyTorch/Classification/ConvNets/resnet50v1.5",
}
"""The address of each source. The first one's curves are in scaling_curves.csv, too."""


class Device(NamedTuple):
    """A device, the pictures of ImageNet on which one trains ResNet50 in a second, and who says so.

    It computes in float32 unless the title says otherwise.
    """

    title: str
    pictures_per_s: float
    source: str

    @property
    def times_as_fast(self) -> float:
        """How many times as fast as a core of ours, in two digits."""
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
"""What one core trains of 32 × 32 pixels at batch 64, in the committed records of ResNet50."""
_OURS_PER_S = OUR_PICTURES_PER_S / (224 / 32) ** 2
