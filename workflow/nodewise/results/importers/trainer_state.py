"""Import `trainer_state.json` of Hugging Face's Trainer."""

from pathlib import Path

import pandas as pd
from pydantic import BaseModel, ValidationError

from nodewise.core.errors import UserError
from nodewise.core.schema import MOST_JSON_BYTES, first_error, read_bytes
from nodewise.results.importers import IMPORTERS


class _Logged(BaseModel):
    train_samples_per_second: float | None = None
    train_steps_per_second: float | None = None


class _State(BaseModel):
    global_step: int
    log_history: list[_Logged]


class TrainerState:
    """Importer of `trainer_state.json`.

    At the end of a training, the Trainer logs examples and steps per second over all devices.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the file has the name that the Trainer uses."""
        return path.suffix == ".json" and "trainer_state" in path.stem

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row. `global_batch` is the number of examples per step, over all devices.

        Raises:
            UserError: the file is not valid, or the training was not completed.
        """
        try:
            state = _State.model_validate_json(read_bytes(path, MOST_JSON_BYTES))
        except ValidationError as error:
            raise UserError(f"{path}: {first_error(error)}") from error
        for logged in reversed(state.log_history):
            samples, steps = logged.train_samples_per_second, logged.train_steps_per_second
            if samples and steps:
                row = {"steps_per_s": steps, "global_batch": float(round(samples / steps))}
                return pd.DataFrame([row])
        raise UserError(f"{path}: has no train_samples_per_second, so the training did not end")


IMPORTERS.add("trainer_state", TrainerState())
