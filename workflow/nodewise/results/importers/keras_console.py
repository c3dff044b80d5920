"""Import the console output of Keras 2 and 3: `469/469 ━━━━━━━━━━ 15s 31ms/step - loss: 0.5`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.importers import IMPORTERS, starts_with, text_of

_TIMED = re.compile(r"\b\d+(us|ms|s)/(step|sample)\b")
_EPOCH = re.compile(r"\bEpoch \d+/\d+\s*$")
# After the bar, or `-` with verbose=2: seconds since the start, and the time of a step.
_COUNT = re.compile(
    r"(\d{1,9})/([1-9]\d{0,8}) (?:\[[=>.]+\]|[━=]+|-) ?-? ?"
    r"(?:(\d{1,9})s)?.{0,2000}? (\d{1,9})(us|ms|s)/step\b"
)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_UNTOLD = "no line says `Epoch 1/3`, so every line that ends is taken as an epoch of training"
_COARSE = 10  # a smaller whole number may be more than 5 % off


@dataclass(frozen=True)
class _Line:
    at: int
    steps: int
    step_s: float
    coarse: bool
    validated: bool


class KerasConsole:
    """Importer of the console output of Keras.

    The line that ends an epoch has the time of a step. Epochs are repeats. If there are several,
    the first one is left out because its first step builds the graph. `evaluate` and `predict`
    print no line such as `Epoch 1/3` before theirs, which are not read. Nor does a training of one
    epoch: if a log has no such line at all, every line that ends is taken as an epoch.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the file has times of steps or of samples."""
        return starts_with(path, _TIMED)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per epoch.

        Raises:
            UserError: there is no epoch with the time of a step, or these times are 0, or the
                epochs are of several runs.
        """
        lines = re.split("[\r\n]+", text_of(path))
        told = any(map(_EPOCH.search, lines))
        epochs = list(_epochs(lines, told=told))
        if not epochs:
            raise UserError(f"{path}: has no epoch that ended with a time such as `31ms/step`")
        steps = sorted({line.steps for epoch in epochs for line in epoch})
        if len(steps) > 1:
            raise UserError(
                f"{path}: has epochs of {steps[0]} and of {steps[1]} steps; split it, so that "
                "each file is of one run"
            )
        last = [_last(epoch) for epoch in epochs[len(epochs) > 1 :]]
        if not all(line.step_s for line in last):
            raise UserError(f"{path}: Keras printed a step time of 0, so the steps were too short")
        rows = pd.DataFrame({"step_time_s": [line.step_s for line in last]})
        rows.attrs["notes"] = [*([] if told else [_UNTOLD]), *_notes(last)]
        return rows


IMPORTERS.add("keras_console", KerasConsole())


def _epochs(lines: Sequence[str], *, told: bool) -> Iterator[list[_Line]]:
    """Yield the lines of each epoch of training, up to the first that counts all steps.

    With `told`, an epoch begins only with a line such as `Epoch 1/3`.
    """
    epoch: list[_Line] | None = None if told else []
    for text in lines:
        if _EPOCH.search(text):
            epoch = []
        elif epoch is not None and (found := _COUNT.search(text)):
            epoch.append(_line(found))
            if epoch[-1].at == epoch[-1].steps:
                yield epoch
                epoch = None if told else []


def _line(found: re.Match[str]) -> _Line:
    at, steps, elapsed, printed = (int(found[group] or 0) for group in (1, 2, 3, 4))
    unit_s = _SECONDS[found[5]]
    # Keras rounds 1.4 s to `1s/step`. The time since the start has more digits then.
    mean = elapsed / steps / unit_s
    finer = at == steps and elapsed > printed and round(mean) == printed
    return _Line(
        at,
        steps,
        step_s=(mean if finer else printed) * unit_s,
        coarse=(elapsed if finer else printed) < _COARSE,
        validated="val_" in found.string,
    )


def _last(epoch: Sequence[_Line]) -> _Line:
    """Return the last line of an epoch.

    If its time includes validation, and there is a line of the second half of the epoch before it,
    return that one: it is the mean over all steps until then.
    """
    before = [line for line in epoch if not line.validated and 2 * line.at >= line.steps]
    return before[-1] if before else epoch[-1]


def _notes(lines: Sequence[_Line]) -> list[str]:
    notes = []
    if any(line.validated for line in lines):
        notes.append("the time of a step includes validation, as Keras prints it")
    if any(line.coarse for line in lines):
        notes.append("the time of a step has only one digit, as Keras prints it")
    return notes
