"""TensorFlow's MirroredStrategy: the nodes are devices of one process."""

from nodewise.strategies.bytes_sent import nothing
from nodewise.strategies.declaration import STRATEGIES, Declaration, Facts

STRATEGIES.add(
    "mirrored",
    Declaration(
        module=__name__,
        title="MirroredStrategy, devices of one process",
        max_nodes=16,
        exchange="devices",
        facts=Facts(
            synchronous="yes",
            holds="every device",
            sends="0: one process",
            needs="one machine; GPUs, or its cores as devices",
        ),
        bytes_sent=nothing,
        whole_batches=True,
        one_process=True,
    ),
)
