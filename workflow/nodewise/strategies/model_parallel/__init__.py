"""Model parallelism: the model is cut into stages, one per node of a pipeline."""

from nodewise.strategies.declaration import STRATEGIES, Declaration, Facts
from nodewise.strategies.options import UNKNOWN_CUTS, Pipelined

STRATEGIES.add(
    "model_parallel",
    Declaration(
        module=__name__,
        title="Model parallelism",
        max_nodes=64,
        exchange="activations",
        facts=Facts(
            synchronous="yes",
            holds="one stage on each node",
            sends="2(n − 1) · a · b",
            needs="a model that can be cut where a single tensor passes",
            unknown=UNKNOWN_CUTS,
        ),
        options=Pipelined,
        whole_batches=True,
    ),
)
