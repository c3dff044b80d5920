"""The names of the objectives. Commands import them before NumPy is loaded."""

from typing import Literal

Objective = Literal[
    "epoch_time", "target_time", "epoch_cost", "target_cost", "efficiency", "deadline", "energy"
]
