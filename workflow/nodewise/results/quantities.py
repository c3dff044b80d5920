"""Types of the numbers in records with their allowed ranges, and messages about other values."""

from datetime import datetime
from typing import Annotated, NoReturn

from pydantic import Field

_DAY_US = 86_400_000_000  # a cell may take at most a day

Count = Annotated[int, Field(ge=0, le=10**18)]
Seconds = Annotated[float, Field(ge=0, le=10_000_000, allow_inf_nan=False)]
Micros = Annotated[int, Field(ge=0, le=_DAY_US)]
StepMicros = Annotated[int, Field(ge=1, le=_DAY_US)]
Joules = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
Finite = Annotated[float, Field(allow_inf_nan=False)]


def refuse(field: str, value: object, allowed: str) -> NoReturn:
    """Raise a ValueError that names the field, its value and what is allowed."""
    raise ValueError(f"{field}: {value} is not allowed, must be {allowed}")


def check_order(started_at: datetime, finished_at: datetime) -> None:
    """Check that a measurement did not finish before it started.

    Raises:
        ValueError: it finished before it started.
    """
    if finished_at < started_at:
        refuse("finished_at", finished_at, f"{started_at} (started_at) or later")
