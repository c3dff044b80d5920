"""TensorFlow's MirroredStrategy: the nodes are devices of one process."""

from nodewise.core.exchanges import DEVICES
from nodewise.strategies.declaration import STRATEGIES, Declaration

STRATEGIES.add(
    "mirrored",
    Declaration(
        module=__name__,
        title="MirroredStrategy, devices of one process",
        max_nodes=16,
        exchange=DEVICES,
        needs="one machine; GPUs, or its cores as devices",
        whole_batches=True,
        one_process=True,
    ),
)
