"""Model parallelism: the model is cut into stages, one per node of a pipeline."""

from nodewise.core.exchanges import ACTIVATIONS
from nodewise.strategies.declaration import STRATEGIES, Declaration
from nodewise.strategies.options import Pipelined

STRATEGIES.add(
    "model_parallel",
    Declaration(
        module=__name__,
        title="Model parallelism",
        max_nodes=64,
        exchange=ACTIVATIONS,
        needs="a model that can be cut where a single tensor passes",
        options=Pipelined,
        whole_batches=True,
        splits_model=True,
    ),
)
