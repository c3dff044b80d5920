"""Import the console output of Keras: `469/469 ━━━━━━━━━━ 15s 31ms/step - loss: 0.5`.

This is code, not a declaration: which line of an epoch counts, and what its numbers mean, depends
on other lines.
"""

import re
from math import gcd
from pathlib import Path

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
_LINE = (
    r"(?:(?P<at>\d{1,9})/(?P<steps>[1-9]\d{0,8}) (?:(?P<old>\[)[=>.]+\]|[━=]+|-) ?-? ?"
    r"|^- |^(?=\d+s - loss))"
    r"(?:(?P<elapsed>\d{1,9})s\b(?!/))?"
    r"(?:.{0,2000}? (?P<time>\d{1,9})(?P<unit>us|ms|s)/(?P<of>step|sample)\b)?"
)
_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_COARSE = 10  # a smaller whole number may be more than 5 % off
_LEAST_BATCH = 8  # by which bars advance where they count samples


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
        samples = [int(count) for count in re.findall(r"\bTrain on (\d{1,12}) samples", text)]
        lines = pd.Series(re.split("[\r\n]+", text))
        bars = _bars(lines, samples)
        announced = bars["epoch"].max() > 0
        epochs = _epochs(bars, announced=announced)
        if epochs.empty:
            raise UserError(f"{path}: has no epoch that ended with a time such as `31ms/step`")
        if epochs["steps"].nunique() > 1:
            raise UserError(
                f"{path}: has epochs of {epochs['steps'].min():.0f} and of "
                f"{epochs['steps'].max():.0f} steps; split it, so that each file is of one run"
            )
        # The last line of an epoch, or one of its second half if the last includes validation.
        epochs["best"] = ~epochs["validated"] & (2 * epochs["at"] >= epochs["steps"])
        epochs = epochs.sort_values(["epoch", "best"], kind="stable")
        epochs = epochs.drop_duplicates("epoch", keep="last")
        if len(epochs) > 1:
            epochs = epochs[1:]
        if not (epochs["seconds"] > 0).all():
            raise UserError(f"{path}: Keras printed a step time of 0, so the steps were too short")
        by_sample = epochs["per_sample"] | _counts_samples(bars)
        rows = pd.DataFrame(
            {
                "samples_per_s": (1 / epochs["seconds"]).where(by_sample),
                "step_time_s": epochs["seconds"].mask(by_sample),
            }
        ).dropna(axis="columns", how="all")
        may_be_samples = (epochs["seconds"] < _SECONDS["ms"]) | epochs["unit"].isna()
        notes = {
            "no line says `Epoch 1/3`, so every line that ends is taken as an epoch of training": (
                not announced
            ),
            "the time of a step includes validation, as Keras prints it": any(epochs["validated"]),
            "the time of a step has only one digit, as Keras prints it": any(
                epochs["number"] < _COARSE
            ),
            "Keras before 2.4 and TensorFlow before 2.2 count samples, and print the time of a "
            "sample as that of a step: if the log is of these, add its line `Train on … samples`": (
                any(may_be_samples & ~by_sample)
            ),
        }
        rows.attrs["notes"] = [note for note, holds in notes.items() if holds]
        return rows


IMPORTERS.add("keras_console", KerasConsole())


def _bars(lines: "pd.Series[str]", samples: list[int]) -> pd.DataFrame:
    """Return what the lines of bars say; others are empty.

    `epoch` counts the lines `Epoch 1/3` before each. `seconds` is the time of a step, or of a
    sample if `per_sample`; `number` is the whole number that was printed for it.
    """
    bars = lines.str.extract(_LINE)
    counts = ["at", "steps", "elapsed", "time"]
    bars[counts] = bars[counts].astype(float)
    for count in ("at", "steps"):
        bars[count] = bars[count].fillna(samples[0] if samples else 0)
    unit_s = bars["unit"].map(_SECONDS).fillna(1.0)
    ended = bars["at"] == bars["steps"]
    # Keras rounds 1.4 s to `1s/step`. The time since the start has more digits then.
    mean = bars["elapsed"] / bars["steps"].clip(lower=1) / unit_s
    finer = ended & (bars["elapsed"] > bars["time"]) & (mean.round() == bars["time"])
    finer |= bars["unit"].isna()
    return bars.assign(
        epoch=lines.str.contains(_EPOCH).cumsum(),
        ended=ended,
        known=bars["unit"].notna() | (ended & (bars["elapsed"] > 0) & (bars["steps"] > 0)),
        seconds=unit_s * mean.where(finer, bars["time"]),
        number=bars["elapsed"].where(finer, bars["time"]),
        per_sample=(bars["of"] == "sample") | bars["steps"].isin(samples),
        validated=lines.str.contains("val_"),
    )


def _epochs(bars: pd.DataFrame, *, announced: bool) -> pd.DataFrame:
    """Return the lines of each epoch of training, up to the first that counts all steps."""
    rows = bars[bars["known"] & ((bars["epoch"] > 0) | (not announced))]
    if not announced:
        rows = rows.assign(epoch=rows["ended"].shift(fill_value=False).cumsum())
    ends = rows["ended"].groupby(rows["epoch"])
    return rows[(ends.cumsum() - rows["ended"] == 0) & ends.transform("any")].copy()


def _counts_samples(bars: pd.DataFrame) -> bool:
    """Return whether bars advance by whole batches: they count samples, not steps."""
    at = {int(at) for at in bars.loc[bars["old"].notna() & ~bars["ended"], "at"]}
    return len(at) > 1 and min(at) == gcd(*at) >= _LEAST_BATCH
