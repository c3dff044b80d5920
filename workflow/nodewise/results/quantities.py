"""Types of the numbers in records with their allowed ranges."""

from typing import Annotated

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
