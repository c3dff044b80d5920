"""Keras on JAX: the compiler adds an all-reduce that sums the gradients of all workers."""

from dataclasses import replace

from nodewise.core.exchanges import RING
from nodewise.strategies.declaration import STRATEGIES, Declaration

STRATEGIES.add(
    "keras_jax",
    Declaration(
        module=__name__,
        title="Keras on JAX, ring all-reduce (Gloo)",
        max_nodes=64,
        exchange=replace(RING, hidden_share=0.0),
        needs="JAX: make jax",
        backend="jax",
        packages=("jax", "jaxlib"),
        command="make jax",
    ),
)
