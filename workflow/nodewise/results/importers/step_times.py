"""Import files of the callback `data/templates/step_times.py`, which times steps of Keras."""

from pathlib import Path
from typing import Annotated, Literal

import pandas as pd
from pydantic import BaseModel, Field

from nodewise.core.schema import read_json
from nodewise.results.curves import MOST_NODES
from nodewise.results.importers import IMPORTERS

_START = 200  # bytes at the start of the file that contain its format


class _Steps(BaseModel):
    format: Literal["nodewise-step-times-1"]
    model: str
    devices: Annotated[int, Field(ge=1, le=MOST_NODES)]
    batch_per_device: Annotated[float, Field(gt=0)] | None = None
    step_s: Annotated[list[Annotated[float, Field(gt=0)]], Field(min_length=1)]


class StepTimes:
    """Importer of step times. Each step is a repeat."""

    def sniff(self, path: Path) -> bool:
        """Return whether the start of the file names this format."""
        with path.open("rb") as file:
            return b'"nodewise-step-times-' in file.read(_START)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per step.

        Raises:
            UserError: the file is damaged.
        """
        steps = read_json(_Steps, path)
        row = {"curve": steps.model, "nodes": steps.devices}
        if steps.batch_per_device is not None:
            row["batch_per_worker"] = steps.batch_per_device
        return pd.DataFrame([row | {"step_time_s": time} for time in steps.step_s])


IMPORTERS.add("step_times", StepTimes())
