"""Import the console output of Keras: `469/469 ━━━━━━━━━━ 15s 31ms/step - loss: 0.5`."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import starts_with, text_of

_TIMED = re.compile(r"\b\d+(us|ms|s)/(step|sample)\b|^\d+/\d+ - \d+s - loss: ", re.MULTILINE)
_EPOCH = re.compile(r"\bEpoch \d+/\d+\s*$")
# After the bar, or `-` with verbose=2: seconds since the start, and the time of a step or sample.
_COUNT = re.compile(
    r"(?P<at>\d{1,9})/(?P<steps>[1-9]\d{0,8}) (?:\[[=>.]+\]|[━=]+|-) ?-? ?"
    r"(?:(?P<elapsed>\d{1,9})s)?"
    r"(?:.{0,2000}? (?P<time>\d{1,9})(?P<unit>us|ms|s)/(?P<of>step|sample)\b)?"
)
_SAMPLES = re.compile(r"^Train on (\d{1,12}) samples", re.MULTILINE)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_UNTOLD = "no line says `Epoch 1/3`, so every line that ends is taken as an epoch of training"
_COARSE = 10  # a smaller whole number may be more than 5 % off


@dataclass(frozen=True)
class _Line:
    """A line of a bar; `seconds` is the time of a step, or of a sample."""

    at: int
    steps: int
    seconds: float
    coarse: bool
    validated: bool
    of_sample: bool


class KerasConsole:
    """Importer of the console output of Keras.

    The line that ends an epoch has the time of a step, or of a sample in old versions. Epochs are
    repeats. If there are several, the first one is left out because its first step builds the
    graph. `evaluate` and `predict` print no line such as `Epoch 1/3` before theirs, which are not
    read. Nor does a training of one epoch: if a log has no such line at all, every line that ends
    is taken as an epoch.
    """

    def sniff(self, path: Path) -> bool:
        """Return whether the file has times of steps, of samples or of epochs."""
        return starts_with(path, _TIMED)

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per epoch.

        Raises:
            UserError: there is no epoch with the time of a step, or these times are 0, or the
                epochs are of several runs.
        """
        text = text_of(path)
        lines = re.split("[\r\n]+", text)
        samples = {int(found) for found in _SAMPLES.findall(text)}
        told = any(map(_EPOCH.search, lines))
        epochs = list(_epochs(lines, samples, told=told))
        if not epochs:
            raise UserError(f"{path}: has no epoch that ended with a time such as `31ms/step`")
        steps = sorted({line.steps for epoch in epochs for line in epoch})
        if len(steps) > 1:
            raise UserError(
                f"{path}: has epochs of {steps[0]} and of {steps[1]} steps; split it, so that "
                "each file is of one run"
            )
        last = [_last(epoch) for epoch in epochs[len(epochs) > 1 :]]
        if not all(line.seconds for line in last):
            raise UserError(f"{path}: Keras printed a step time of 0, so the steps were too short")
        rows = pd.DataFrame(
            [
                {"samples_per_s": 1 / line.seconds}
                if line.of_sample
                else {"step_time_s": line.seconds}
                for line in last
            ]
        )
        notes = {
            _UNTOLD: not told,
            "the time of a step includes validation, as Keras prints it": any(
                line.validated for line in last
            ),
            "the time of a step has only one digit, as Keras prints it": any(
                line.coarse for line in last
            ),
        }
        rows.attrs["notes"] = [note for note, holds in notes.items() if holds]
        return rows


IMPORTERS.add("keras_console", KerasConsole())


def _epochs(lines: Sequence[str], samples: set[int], *, told: bool) -> Iterator[list[_Line]]:
    """Yield the lines of each epoch of training, up to the first that counts all steps.

    With `told`, an epoch begins only with a line such as `Epoch 1/3`.
    """
    epoch: list[_Line] | None = None if told else []
    for text in lines:
        if _EPOCH.search(text):
            epoch = []
        elif epoch is not None and (found := _COUNT.search(text)):
            line = _line(found, samples)
            if line is None:
                continue
            epoch.append(line)
            if line.at == line.steps:
                yield epoch
                epoch = None if told else []


def _line(found: re.Match[str], samples: set[int]) -> _Line | None:
    """Return the time of a step that a line says; None if it says none."""
    at, steps = int(found["at"]), int(found["steps"])
    elapsed, printed = int(found["elapsed"] or 0), int(found["time"] or 0)
    if found["unit"] is None and not (elapsed and at == steps):
        return None
    unit_s = _SECONDS[found["unit"] or "s"]
    # Keras rounds 1.4 s to `1s/step`. The time since the start has more digits then.
    mean = elapsed / steps / unit_s
    finer = at == steps and elapsed > printed and round(mean) == printed
    finer = finer or found["unit"] is None
    return _Line(
        at,
        steps,
        seconds=(mean if finer else printed) * unit_s,
        coarse=(elapsed if finer else printed) < _COARSE,
        validated="val_" in found.string,
        of_sample=found["of"] == "sample" or steps in samples,
    )


def _last(epoch: Sequence[_Line]) -> _Line:
    """Return the last line of an epoch.

    If its time includes validation, and there is a line of the second half of the epoch before it,
    return that one: it is the mean over all steps until then.
    """
    before = [line for line in epoch if not line.validated and 2 * line.at >= line.steps]
    return before[-1] if before else epoch[-1]
