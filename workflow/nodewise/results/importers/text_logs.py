"""Import text logs, whose kinds are declared in log_formats.yaml. Some need code beside that."""

import re
from collections.abc import Sequence
from math import ceil, floor, gcd
from pathlib import Path

import numpy as np
import pandas as pd

from nodewise.core.errors import UserError
from nodewise.core.schema import read_bytes
from nodewise.results.curve_units import SECONDS
from nodewise.results.importers import IMPORTERS
from nodewise.results.log_format import DECLARED, MOST_BYTES, LogFormat, plain, text_of

_RUN = r'"time_ms": (\d+), .*"key": "run_start"[\s\S]*?"time_ms": (\d+), .*"key": "run_stop"'
_CLOSE = 0.05
_INCLUDES = 1.5  # a throughput may leave out evaluations, which the time of an epoch includes
_WHOLE = 0.9  # share of a run from which its only epoch is the run
_MOST_EPOCHS = 999  # some programs call a count of examples `epoch_num`

_ROUNDING = 0.0005  # of the Trainer's rates: a slow one is 0.0
_NOTABLE = 0.01  # share of evaluation in the time of a training

_BAR = re.compile(r"\b(\d{1,9})/(\d{1,9}) \[[=>.]+\]")
_LAST_BAR = re.compile(r"(?=([1-9]\d*)/\1 [\[━])")  # other programs may remove the line end before
_COARSE = 10  # a smaller whole number may be more than 5 % off
_UNLIKELY = 32  # chance against it that bars which count steps are multiples of a batch
_LEAST_STEP_S = 0.0002  # in TensorFlow, also of a tiny model


def _numbers(key: str, text: str) -> list[float]:
    """Return the numbers that JSON has as the value of a key, or events of MLPerf."""
    found = re.findall(rf'"{key}"(?:, "value")?:\s*"?(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)', text)
    return [*map(float, found)]


def count_examples(table: pd.DataFrame, text: str, notes: list[str]) -> pd.DataFrame:
    """Add the examples of an epoch, or of a run, to the rows of a log of MLPerf.

    Some programs log batches as `train_samples`, or what they planned. Logged throughputs, of all
    devices or of each, show whether `examples` count batches. They are used where an epoch includes
    evaluations or is not complete.
    """
    timed = table[table["epoch_time_s"] > 0]  # some programs log an empty block at the end
    table = table if timed.empty else timed.reset_index(drop=True)
    run = re.search(_RUN, text)
    run_s = (float(run[2]) - float(run[1])) / 1e3 if run else np.inf
    of_run = len(table) == 1 and table["epoch_time_s"].item() > _WHOLE * run_s
    if of_run:
        notes.append("the time is that of the whole run to its target quality")
    benchmark = table.get("curve", [""])[0]
    table["examples"] = _examples(text, benchmark, None if of_run else len(table))
    rates = _numbers("throughput", text)
    if rates and "global_batch" in table:
        each = np.median(rates) * (table["epoch_time_s"] / table["examples"]).median()
        batches = table.filter(["global_batch", "batch_per_worker"]).median()
        counted = (batches > 1) & ((each / batches - 1).abs() < _CLOSE)
        if counted.any() or (table["examples"] < table["global_batch"]).any():
            table["examples"] *= table["global_batch"]
            notes.append("train_samples count batches, as the logged throughputs show")
        elif not of_run and (each < 1 / _INCLUDES or each > _INCLUDES):
            notes.append("the logged throughput is left out: it is not that of train_samples")
        elif not abs(each - 1) < _CLOSE:
            table = table.drop(columns=["examples", "epoch_time_s"])
            table["samples_per_s"] = np.median(rates)
            notes.append("the logged throughput is used, which is not that of train_samples")
    return table.dropna(axis="columns")


def _examples(text: str, benchmark: str, epochs: int | None) -> float:
    """Return the examples of a run, or of each of its epochs; NaN if unknown.

    `train_samples` at the end of a run were trained, those before are planned.
    """
    counts = sorted({n for n in _numbers("(?:samples_count|epoch_num)", text) if n > _MOST_EPOCHS})
    _, *end = re.split(r'"(?:epoch|block|run)_stop"', text, maxsplit=1)
    logged = _numbers("train_samples", text if epochs else "".join(end))
    if epochs is None:
        return max(counts + logged, default=np.nan)
    between = np.median(np.diff(counts)) if len(counts) > 1 else 0.0
    if between > _MOST_EPOCHS and len(counts) >= epochs:
        return float(between)
    return DECLARED["mlperf_examples"].get(benchmark, [np.nan, *logged][-1]) or np.nan


def find_batch(table: pd.DataFrame, text: str, notes: list[str]) -> pd.DataFrame:
    """Add the `global_batch` to the row of a `trainer_state.json`, if it is certain.

    The Trainer logs the examples of all epochs per second. In each epoch, the last step may have
    fewer examples, or be dropped. So the mean examples per step only bound the batch. It is a
    multiple of `train_batch_size`, the batch of a process.
    """
    run_s = _numbers("train_runtime", text)[-1]
    if sum(_numbers("eval_runtime", text)) > _NOTABLE * run_s:
        notes.append("the time of a step may include evaluations")
    keys = ("max_steps", "num_train_epochs", "train_samples_per_second")
    known = [_numbers(key, text)[-1:] for key in keys]
    # Without a rate of steps, the file is of old versions, whose other rate was that of steps.
    if not all(known) or not _numbers("train_steps_per_second", text):
        return table
    (steps,), (epochs,), (rate,) = known
    epochs %= 2**63  # the number of a stream, whose length is unknown
    if steps > epochs + 1:
        each = int(max(_numbers("train_batch_size", text), default=1)) or 1
        least = (rate - _ROUNDING) * run_s / (steps + epochs)
        most = (rate + _ROUNDING) * run_s / (steps - 1 - epochs)  # steps were rounded up
        batches = range(max(ceil(least / each), 1) * each, floor(most) + 1, each)
        if len(batches) == 1:
            table["global_batch"] = float(batches[0])
    return table


class KerasConsole(LogFormat):
    """An importer of `469/469 ━━━━━━━━━━ 15s 31ms/step - loss: 0.5`.

    The line that ends an epoch has the time of a step, or of a sample in old versions. Epochs are
    repeats. If there are several, the first one is left out because its first step builds the
    graph. `evaluate` and `predict` print no line such as `Epoch 1/3` before theirs, which are not
    read. Nor does a training of one epoch: if a log has no such line at all, every line that ends
    is taken as an epoch. Lines of `predict`, and of downloads, have no loss.
    """

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per epoch.

        Raises:
            UserError: there is no epoch with the time of a step, or these times are 0, or the
                epochs are of several runs.
        """
        (pattern,), (epoch, samples, processes, devices) = self.results, self.settings
        text = text_of(path, [epoch, devices])
        lines = pd.Series(_LAST_BAR.sub("\n", text).split("\n"), dtype=object)
        bars = _bars(lines, pattern, [int(count) for count in re.findall(samples, text)])
        begun = lines.str.extract(epoch)  # the number of an epoch, and how many are planned
        begins, planned = begun[1].notna(), begun[1].ffill().fillna("")
        announced = bool(begins.any())
        if bars["has_loss"].any() or not announced:
            bars = bars[bars["has_loss"]]
        bars["epoch"] = (begins if announced else bars["ends"].shift(fill_value=True)).cumsum()
        bars["training"] = ((begun[0] == "1") | (planned != planned.shift())).cumsum()
        epochs = _counted(_epochs(bars[bars["epoch"] > 0], path, self.example), text)
        of_sample, seconds = epochs["per_sample"] | epochs["guessed"], epochs["seconds"]
        each = re.search(processes, plain(read_bytes(path, MOST_BYTES))) is not None
        rate = "samples_per_s_per_device" if each else "samples_per_s"
        times = {"step_time_s": seconds.mask(of_sample), rate: 1 / seconds[of_sample]}
        rows = pd.DataFrame(times).dropna(axis="columns", how="all").reset_index(drop=True)
        if logged := re.search(devices, text, re.MULTILINE):
            rows["nodes"] = float(logged["devices"])
        noted = epochs.assign(
            unannounced=not announced,
            several=epochs["training"].nunique() > 1,
            coarse=epochs["number"] < _COARSE,
            of_process=of_sample & (not each),
        )
        rows.attrs["notes"] = [note for name, note in self.notes.items() if noted[name].any()]
        return rows


def _bars(lines: pd.Series, pattern: str, samples: Sequence[int]) -> pd.DataFrame:
    """Return the lines of bars that have a time of a step, of a sample or of an epoch.

    `seconds` is that of a step, or of a sample, and `number` the whole number that was printed. It
    is `timed` if that was not only the time of the epoch. `samples` are counts in the log.
    """
    found = lines.str.extract(pattern)
    whole = samples[0] if samples else 0
    unknown = {"at": whole, "steps": whole, "elapsed": 0, "time": 0}
    numbers = found[[*unknown]].astype(float).fillna(unknown).astype(int)
    at, steps, elapsed, printed = (numbers[name] for name in unknown)
    timed, unit_s = found["unit"].notna(), found["unit"].map(SECONDS).fillna(1.0)
    # Keras rounds 1.4 s to `1s/step`. The time since the start has more digits then.
    mean = elapsed / steps.clip(lower=1) / unit_s
    finer = ~timed | ((at == steps) & (elapsed > printed) & (mean.round() == printed))
    bars = numbers.assign(
        ends=at == steps,
        seconds=mean.where(finer, printed.astype(float)) * unit_s,
        number=elapsed.where(finer, printed),
        timed=timed,
        per_sample=(found["of"] == "sample") | steps.isin(samples),
        in_brackets=lines.str.contains("=]", regex=False),
        validated=lines.str.contains("val_", regex=False),
        has_loss=lines.str.contains("loss: ", regex=False),
    )
    return bars[timed | (bars["ends"] & (elapsed > 0) & (steps > 0))]


def _epochs(bars: pd.DataFrame, path: Path, example: str) -> pd.DataFrame:
    """Return the best line of each epoch of training; see `KerasConsole`."""
    ends = bars["ends"]
    if not ends.any():
        raise UserError(f"{path}: has no epoch that ended with a time such as `{example}`")
    # Callbacks may evaluate in each epoch, before or after its line. Training takes longer, but for
    # the first step of an evaluation after it, which builds the graph.
    bars = bars.assign(length=(bars["steps"] - bars["epoch"].duplicated()) * bars["seconds"])
    by = {"epoch": "nunique", "validated": "max", "length": "max"}
    trained = bars["steps"] == bars.groupby("steps").agg(by).sort_values([*by]).index[-1]
    last = bars.index.to_series().where(trained & ends).groupby(bars["epoch"]).transform("min")
    if last[ends].isna().any():
        least, most = bars["steps"].min(), bars["steps"].max()
        raise UserError(f"{path}: has epochs of {least} and of {most} steps; split it by runs")
    bars = bars[trained & (bars.index <= last)]
    # A time before validation is the mean of the steps until then: of half of them, at least.
    bars["sound"] = ~bars["validated"] & (2 * bars["at"] >= bars["steps"])
    bars = bars.sort_values(["epoch", "sound"]).drop_duplicates("epoch", keep="last")
    bars["first"] = ~bars.duplicated("training")
    bars = bars.iloc[int(len(bars) > 1) :] if bars["first"].all() else bars[~bars["first"]]
    if not bars["validated"].all():
        bars = bars[~bars["validated"]]
    if not bars["seconds"].all():
        raise UserError(f"{path}: Keras printed a step time of 0, so the steps were too short")
    return bars


def _counted(epochs: pd.DataFrame, text: str) -> pd.DataFrame:
    """Return the lines, `guessed` to count samples, or `unsure` if it is not known what they count.

    Bars count samples if they advance by batches, or if a step would be too short.
    """
    size, seconds = str(epochs["steps"].iloc[0]), epochs["seconds"]
    before = {int(at) for at, steps in _BAR.findall(text) if steps == size and at != steps}
    batch, others = gcd(*before), len(before) - 1
    in_steps = batch == 1 and others > 0
    # Versions that print no time of a step take longer for it.
    short = seconds < epochs["timed"].map({True: _LEAST_STEP_S, False: SECONDS["ms"]})
    in_batches = others > 0 and batch**others >= _UNLIKELY
    in_samples = not in_steps and (in_batches or bool(short.all()))
    old = not in_steps and " acc: " in text  # `accuracy` in TensorFlow 2
    doubtful = ~epochs["timed"] | (epochs["in_brackets"] & (old | (seconds < SECONDS["ms"])))
    guessed = epochs["in_brackets"] & ~epochs["per_sample"] & in_samples
    return epochs.assign(guessed=guessed, unsure=doubtful & ~epochs["per_sample"] & ~guessed)


_RULES = {"mlperf_log": count_examples, "trainer_state": find_batch}
for _name, _declared in DECLARED["formats"].items():
    _kind = KerasConsole if _name == "keras_console" else LogFormat
    IMPORTERS.add(_name, _kind(**_declared, rule=_RULES.get(_name)))
