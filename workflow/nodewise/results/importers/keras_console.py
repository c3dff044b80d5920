"""Import the console output of Keras: `469/469 ━━━━━━━━━━ 15s 31ms/step - loss: 0.5`.

This is code, not a declaration: which line of an epoch counts, and what its numbers mean, depends
on other lines.
"""

import re
from collections.abc import Iterator
from math import gcd
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import start_of, text_of

_EPOCH = r"^Epoch \d+/\d+\s*$"
_TIMED = re.compile(
    r"/(?:(?<=\d[mu]s/)|(?<=\ds/))(?:step|sample)\b|(?<=\d)/\d+ (?:\[=+\] )?- \d+s(?: - |$)"
    r"|\b\d+s - loss: "
)
# After the bar, or `-` with verbose=2: seconds since the start, and the time of a step or sample.
# Keras 2.0 to 2.3 print no count with verbose=2.
_COUNT = re.compile(
    r"(?:(?P<at>\d{1,9})/(?P<steps>[1-9]\d{0,8}) (?:\[[=>.]+\]|[━=]+|-) ?-? ?|^- |^(?=\d+s - loss))"
    r"(?:(?P<elapsed>\d{1,9})s\b(?!/))?"
    r"(?:.{0,2000}? (?P<time>\d{1,9})(?P<unit>us|ms|s)/(?P<of>step|sample)\b)?"
)
_BAR = re.compile(r"\b(\d{1,9})/(\d{1,9}) \[[=>.]+\]")
_SAMPLES = re.compile(r"\bTrain on (\d{1,12}) samples")
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_COARSE = 10  # a smaller whole number may be more than 5 % off
_LEAST_BATCH = 8  # by which bars advance where they count samples


class _Bar(NamedTuple):
    """A line of a bar: a time of a step, or of a sample, with the whole number that was printed."""

    at: int
    steps: int
    seconds: float
    number: int
    per_sample: bool
    validated: bool
    timed: bool  # whether it has the time of a step, not only of the epoch


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
        return _TIMED.search(start_of(path)) is not None

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per epoch.

        Raises:
            UserError: there is no epoch with the time of a step, or these times are 0, or the
                epochs are of several runs.
        """
        text = text_of(path, [_EPOCH])
        epochs = list(_epochs(text))
        if not epochs:
            raise UserError(f"{path}: has no epoch that ended with a time such as `31ms/step`")
        if len(steps := {bar.steps for epoch in epochs for bar in epoch}) > 1:
            raise UserError(
                f"{path}: has epochs of {min(steps)} and of {max(steps)} steps; split it, so that "
                "each file is of one run"
            )
        bars = [_last(epoch) for epoch in epochs[len(epochs) > 1 :]]
        if not all(bar.seconds for bar in bars):
            raise UserError(f"{path}: Keras printed a step time of 0, so the steps were too short")
        by_batches = _counts_samples(text)
        rows = pd.DataFrame(
            {"samples_per_s": 1 / bar.seconds}
            if bar.per_sample or by_batches
            else {"step_time_s": bar.seconds}
            for bar in bars
        )
        unsure = not by_batches and any(
            not bar.per_sample and (bar.seconds < _SECONDS["ms"] or not bar.timed) for bar in bars
        )
        notes = {
            "no line says `Epoch 1/3`, so every line that ends is taken as an epoch of training": (
                not re.search(_EPOCH, text, re.MULTILINE)
            ),
            "the time of a step includes validation, as Keras prints it": any(
                bar.validated for bar in bars
            ),
            "the time of a step has only one digit, as Keras prints it": any(
                bar.number < _COARSE for bar in bars
            ),
            "Keras before 2.4 and TensorFlow before 2.2 count samples, and print the time of a "
            "sample as that of a step: if the log is of these, add its line `Train on … samples`": (
                unsure
            ),
        }
        rows.attrs["notes"] = [note for note, holds in notes.items() if holds]
        return rows


IMPORTERS.add("keras_console", KerasConsole())


def _epochs(text: str) -> Iterator[list[_Bar]]:
    """Yield the lines of each epoch of training, up to the first that counts all steps."""
    samples = [int(count) for count in _SAMPLES.findall(text)]
    announced = re.search(_EPOCH, text, re.MULTILINE) is not None
    epoch: list[_Bar] | None = None if announced else []
    for line in re.split("[\r\n]+", text):
        if re.search(_EPOCH, line):
            epoch = []
        elif epoch is not None and (found := _COUNT.search(line)) and (bar := _bar(found, samples)):
            epoch.append(bar)
            if bar.at == bar.steps:
                yield epoch
                epoch = None if announced else []


def _last(epoch: list[_Bar]) -> _Bar:
    """Return the last line of an epoch.

    If its time includes validation, and there is a line of the second half of the epoch before it,
    return that one: it is the mean over all steps until then.
    """
    before = [bar for bar in epoch if not bar.validated and 2 * bar.at >= bar.steps]
    return before[-1] if before else epoch[-1]


def _counts_samples(text: str) -> bool:
    """Return whether bars advance by whole batches: they count samples, not steps."""
    before = {int(at) for at, steps in _BAR.findall(text) if at != steps}
    return len(before) > 1 and min(before) == gcd(*before) >= _LEAST_BATCH


def _bar(found: re.Match[str], samples: list[int]) -> _Bar | None:
    """Return what a line of a bar says; None if it has no time of a step."""
    counted = [found["at"], found["steps"]] if found["at"] else 2 * (samples[:1] or [0])
    at, steps = map(int, counted)
    elapsed, printed = int(found["elapsed"] or 0), int(found["time"] or 0)
    timed = found["unit"] is not None
    if not timed and not (elapsed and steps and at == steps):
        return None
    unit_s = _SECONDS[found["unit"] or "s"]
    # Keras rounds 1.4 s to `1s/step`. The time since the start has more digits then.
    mean = elapsed / max(steps, 1) / unit_s
    finer = not timed or (at == steps and elapsed > printed and round(mean) == printed)
    seconds, number = (mean * unit_s, elapsed) if finer else (printed * unit_s, printed)
    per_sample = found["of"] == "sample" or steps in samples
    return _Bar(at, steps, seconds, number, per_sample, "val_" in found.string, timed)
