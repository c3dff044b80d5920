"""Import the console output of Keras: `469/469 ━━━━━━━━━━ 15s 31ms/step - loss: 0.5`."""

import re
from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.importers import IMPORTERS, starts_with, text_of

_STEP = re.compile(
    r"(\d+)/(\d+) (?:\[[=>.]+\]|━+) ?-? ?\S+ (\d+)(us|ms|s|min)/(step|sample|epoch)\b"
)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}


class KerasConsole:
    """Importer of the console output of Keras.

    The last line of each epoch has the time of a step. Epochs are repeats. If there are several,
    the first one is left out because its first step builds the graph.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the file has such a line."""
        return starts_with(path, _STEP)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per epoch.

        Raises:
            UserError: no epoch was completed, or its times are 0 or not per step.
        """
        lines = _STEP.findall(re.sub(r"\x1b\[[\d;]*m|\x08", "", text_of(path)))
        ended = [
            (int(time) * _SECONDS[unit], of) for at, all_, time, unit, of in lines if at == all_
        ]
        if not ended:
            raise UserError(f"{path}: no epoch came to its end")
        if any(of != "step" for _, of in ended):
            raise UserError(f"{path}: has times per {ended[0][1]}; times per step are needed")
        if not all(time for time, _ in ended):
            raise UserError(f"{path}: Keras printed a step time of 0, so the steps were too short")
        return pd.DataFrame({"step_time_s": [time for time, _ in ended[len(ended) > 1 :]]})


IMPORTERS.add("keras_console", KerasConsole())
