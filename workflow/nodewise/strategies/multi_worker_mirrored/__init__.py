"""TensorFlow's MultiWorkerMirroredStrategy: an all-reduce sums the gradients of all workers."""

from typing import Literal

from nodewise.core.exchanges import RING
from nodewise.strategies.declaration import STRATEGIES, Declaration, Options


class MultiWorkerMirrored(Options):
    """Options of MultiWorkerMirroredStrategy.

    Attributes:
        collective: how the gradients of n workers, S bytes each, are summed. In a ring every worker
            sends 2(n-1)/n·S. In a star worker 0 is the driver and sends (n-1)·S, and the others
            send S.
    """

    collective: Literal["ring", "star"] = "ring"


STRATEGIES.add(
    "multi_worker_mirrored",
    Declaration(
        module=__name__,
        title="MultiWorkerMirroredStrategy",
        max_nodes=64,
        exchange=RING,
        options=MultiWorkerMirrored,
    ),
)
