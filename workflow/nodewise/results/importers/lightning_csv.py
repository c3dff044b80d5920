"""Import `metrics.csv` of PyTorch Lightning's CSVLogger, or a chart of Weights & Biases as CSV.

Source of the names of rates:
https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ThroughputMonitor.html
"""

from pathlib import Path

import pandas as pd

from nodewise.results.csv_file import read_header, read_table
from nodewise.results.importers import IMPORTERS
from nodewise.results.training_rates import training_rates


class LightningCsv:
    """Importer of `metrics.csv`. Each row with the rate of training is a repeat."""

    def sniff(self, path: Path) -> bool:
        """Return whether the first line has the columns that these programs always write."""
        header = read_header(path)
        return {"epoch", "step"} <= header or "Step" in header

    def read(self, path: Path) -> pd.DataFrame:
        """Return one row per value: examples per second if there are any, else steps per second.

        Raises:
            UserError: there is no rate of training, or several, or it is not a positive number.
        """
        header, lines = read_table(path)
        logged = {
            name: [values[at] for _, values in lines if values[at]]
            for at, name in enumerate(header)
        }
        return training_rates(path, {name: values for name, values in logged.items() if values})


IMPORTERS.add("lightning_csv", LightningCsv())
