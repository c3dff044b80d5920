"""Import `metrics.csv` of PyTorch Lightning's CSVLogger, or a chart of Weights & Biases as CSV.

Each row with the rate of training is a repeat. Source of the names of rates:
https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ThroughputMonitor.html
"""

from pathlib import Path

from nodewise.results.csv_file import read_header, read_table
from nodewise.results.importers import IMPORTERS
from nodewise.results.training_rates import RateLog


def _sniff(path: Path) -> bool:
    """Return whether the first line has the columns that these programs always write."""
    header = read_header(path)
    return {"epoch", "step"} <= header or "Step" in header


def _values(path: Path) -> dict[str, list[str]]:
    """Return the columns that are not empty, without empty values."""
    header, lines = read_table(path)
    columns = {
        name: [values[at] for _, values in lines if values[at]] for at, name in enumerate(header)
    }
    return {name: values for name, values in columns.items() if values}


IMPORTERS.add("lightning_csv", RateLog(_sniff, _values))
