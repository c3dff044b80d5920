"""What a number of nodes can be the best for. Commands read it before NumPy is loaded."""

from typing import Literal

Objective = Literal[
    "epoch_time", "target_time", "epoch_cost", "target_cost", "efficiency", "deadline", "energy"
]
