"""Import `trainer_state.json` of Hugging Face's Trainer."""

import math
from pathlib import Path
from typing import Annotated

import pandas as pd
from pydantic import BaseModel, Field

from nodewise.core.errors import UserError
from nodewise.core.schema import read_json, read_start
from nodewise.results.importers import IMPORTERS

_Seconds = Annotated[float, Field(ge=1e-4, le=1e9)]
_Count = Annotated[int, Field(ge=1, le=10**12)]
_START_BYTES = 20_000
_ROUNDING = 0.0005  # of rates: a slow one is 0.0
_NOTABLE = 0.01  # share of evaluation in the time of the training


class _Logged(BaseModel):
    eval_runtime: _Seconds | None = None
    train_runtime: _Seconds | None = None
    train_samples_per_second: Annotated[float, Field(ge=0, le=1e12)] | None = None
    train_steps_per_second: float | None = None


class _State(BaseModel):
    global_step: _Count
    max_steps: _Count | None = None
    num_train_epochs: Annotated[float, Field(gt=0, le=1e12)] | None = None
    train_batch_size: _Count | None = None
    log_history: list[_Logged]


class TrainerState:
    """Importer of `trainer_state.json`, which has the steps and the time of a training."""

    def sniff(self, path: Path) -> bool:
        """Return whether the file is JSON with the history of a Trainer."""
        return path.suffix == ".json" and b'"log_history"' in read_start(path, _START_BYTES)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row. `global_batch` is the number of examples per step, over all devices.

        Raises:
            UserError: the file is not valid, or the training was not completed.
        """
        state = read_json(_State, path)
        ends = [logged for logged in state.log_history if logged.train_runtime]
        if not ends:
            raise UserError(f"{path}: has no train_runtime, so the training did not end")
        runtime = ends[-1].train_runtime or math.nan
        table = pd.DataFrame([{"steps_per_s": state.global_step / runtime}])
        batches = _global_batches(state, ends[-1], runtime)
        if len(batches) == 1:
            table["global_batch"] = float(batches[0])
        if sum(logged.eval_runtime or 0 for logged in state.log_history) > _NOTABLE * runtime:
            table.attrs["notes"] = ["the time of a step may include evaluations"]
        return table


IMPORTERS.add("trainer_state", TrainerState())


def _global_batches(state: _State, end: _Logged, runtime: float) -> range:
    """Return the possible numbers of examples per step over all devices; none if it is unknown.

    The Trainer logs the examples of all epochs per second. In each epoch, the last step may have
    fewer examples, or be dropped. So the mean examples per step only bound the batch. It is a
    multiple of `train_batch_size`, the batch of a process.

    Source: `speed_metrics` and `set_initial_training_values` in
    https://github.com/huggingface/transformers/tree/main/src/transformers.
    """
    rate, steps, epochs = end.train_samples_per_second, state.max_steps, state.num_train_epochs
    # Without a rate of steps, the file is of old versions, whose other rate was that of steps.
    if not (steps and epochs and steps > epochs + 1) or None in (rate, end.train_steps_per_second):
        return range(0)
    least = ((rate or 0) - _ROUNDING) * runtime / (steps + epochs)
    most = ((rate or 0) + _ROUNDING) * runtime / (steps - 1 - epochs)  # steps were rounded up
    each = state.train_batch_size or 1
    return range(max(math.ceil(least / each), 1) * each, math.floor(most) + 1, each)
