"""Import `metrics.csv` of PyTorch Lightning's CSVLogger, or a chart of Weights & Biases as CSV.

Each row with the rate of training is a repeat. Source of the names of rates:
https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ThroughputMonitor.html
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from nodewise.core.errors import UserError
from nodewise.results.csv_file import parse_number, read_header, read_table
from nodewise.results.importers import IMPORTERS

_PER_S = r"(s|es)?[\W_]*(per[\W_]*|/\s*)s(ec(ond)?)?\W*(\((train|training)\))?$"
_STEPS = re.compile(rf"(^|[\W_])(step|batch|it|iter|iteration){_PER_S}", re.IGNORECASE)
_EXAMPLES = re.compile(
    rf"(^|[\W_])(example|sample|image|img|sequence|seq|sentence){_PER_S}", re.IGNORECASE
)
_OTHER = re.compile(r"eval|evaluate|evaluation|infer.*|pred.*|sanity|test|testing|val|valid.*")


def training_rates(path: Path, logged: Mapping[str, Sequence[str]]) -> pd.DataFrame:
    """Return one row per value of the rate of training over all devices.

    Examples per second are preferred to steps per second. A note names the rate that was taken.

    Args:
        path: the file, for messages.
        logged: the values by name, such as `train/samples_per_sec`.

    Raises:
        UserError: there is no such rate, or more than one, or a value is not a positive number.
    """
    training = [name for name in sorted(logged) if not any(map(_OTHER.fullmatch, _words(name)))]
    steps = [name for name in training if _STEPS.search(name)]
    rates = {
        "samples_per_s": [
            name for name in training if _EXAMPLES.search(name) and not _of_one_device(name)
        ],
        # All devices make a step together. Lightning's global rate counts the batch of each.
        "steps_per_s": [name for name in steps if _of_one_device(name)] or steps,
    }
    clock = next((clock for clock, names in rates.items() if names), "steps_per_s")
    # Keras' rate of an epoch includes its validation; that of a batch does not.
    names = [name for name in rates[clock] if "epoch" not in _words(name)] or rates[clock]
    if len(names) != 1:
        raise UserError(
            f"{path}: needs one rate of training, such as train/samples_per_sec or "
            f"epoch_steps_per_second; it has {', '.join((names or sorted(logged))[:10]) or 'none'}"
        )
    (name,) = names
    try:
        table = pd.DataFrame({clock: [parse_number(value, 1e-9, 1e12) for value in logged[name]]})
    except ValueError as error:
        raise UserError(f"{path}: {name}: {error}") from None
    validated = ", which includes any validation" if "epoch" in _words(name) else ""
    table.attrs["notes"] = [f"the rate of training is {name}{validated}"]
    return table


def _words(name: str) -> set[str]:
    return set(re.split(r"[\W_]+", name.lower()))


def _of_one_device(name: str) -> bool:
    return bool(_words(name) & {"device", "gpu"})


class LightningCsv:
    """Importer of CSV files with a column of each logged value."""

    def sniff(self, path: Path) -> bool:
        """Return whether it is CSV with the columns that these programs always write."""
        header = read_header(path) if path.suffix == ".csv" else set()
        return {"epoch", "step"} <= header or "Step" in header

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per value of the rate of training; see `training_rates`."""
        header, lines = read_table(path)
        columns = {
            name: [values[at] for _, values in lines if values[at]]
            for at, name in enumerate(header)
        }
        return training_rates(path, {name: texts for name, texts in columns.items() if texts})


IMPORTERS.add("lightning_csv", LightningCsv())
