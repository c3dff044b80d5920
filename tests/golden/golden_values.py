"""Values that a change of the code must not change, and how to renew those changed on purpose.

    python tests/golden/golden_values.py tables fits data

recomputes the committed files with the current code. State the reason in the commit message. The
weights after ten steps are renewed by
`NODEWISE_RENEW=1 pytest tests/strategies/test_equivalence.py`.
"""

import hashlib
import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from nodewise.data.synthetic import draw
from nodewise.predict import study
from nodewise.predict.fit_curves import fit_curves
from nodewise.predict.steps_to_accuracy import find_steps
from nodewise.results import published
from nodewise.results.calibration import read_calibrations
from nodewise.results.columns import COLUMNS
from nodewise.results.tables import build_tables
from nodewise.study.config import Config, read_config

FOLDER = Path(__file__).parent
PICTURES, INTEGERS = FOLDER / "pictures.npz", FOLDER / "data.json"
FITS = ("fits", "predictions", "steps_to_accuracy", "trials")


def sha256(values: np.ndarray) -> str:
    """Return the SHA-256 of an array's type, shape and bytes."""
    head = f"{values.dtype.str} {values.shape}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(values).tobytes()).hexdigest()


@cache
def committed() -> tuple[Config, dict[str, pd.DataFrame]]:
    """Return the published study and the tables of its committed records."""
    config = read_config(Path("config/published.yaml"))
    tables = build_tables(
        config.record_files(),
        published.points(),
        watts_per_core=config.watts_per_core,
        published_runs=published.runs(),
        noise_scale_paths=config.noise_scales(),
    )
    return config, tables


def tables() -> dict[str, pd.DataFrame]:
    """Return the tables of the committed records."""
    return {name: committed()[1][name] for name in COLUMNS}


@cache
def fits() -> dict[str, pd.DataFrame]:
    """Return the fits of the committed records, and how they predict held-out points."""
    config, tables = committed()
    known = read_calibrations(config.calibrations())
    steps = find_steps(tables["epochs"], tables["cells"], tables["noise_scale"])
    fitted = study.fitted_tables(fit_curves(tables["curve_points"], known), steps)
    return {name: fitted[name] for name in FITS}


def pictures() -> dict[str, np.ndarray]:
    """Return a few synthetic pictures; processors may round pixels differently."""
    return {str(shape): synthetic(shape)[0][:3] for shape in ((28, 28, 1), (32, 32, 3))}


def synthetic(shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Return 40 synthetic examples of two classes and their labels."""
    return draw(shape, 2, 40, seed=1, split=0)


def integers() -> dict[str, str]:
    """Return the SHA-256 of what is exact on every machine: labels, token ids, shards, batches."""
    from nodewise.data.pipeline import shard  # Imported here because it needs TensorFlow.

    tokens, labels = synthetic((64,))
    found = {"tokens of reviews": tokens, "labels of reviews": labels}
    for workers in (1, 2, 3, 8):
        for rank in range(workers):
            found[f"shard {rank} of {workers}"] = shard(1000, workers, rank, 1)
    for fed in ("sharded", "unsharded", "whole"):
        for rank in range(2):
            for number, (x, y) in enumerate(first_batches(fed, rank)):
                found[f"batch {number}, {fed}, worker {rank}, x"] = x
                found[f"batch {number}, {fed}, worker {rank}, y"] = y
    return {name: sha256(values) for name, values in found.items()}


def first_batches(fed: str, rank: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield a warm-up batch, then the first batch of each of two epochs."""
    import make_records as make
    from nodewise.data import Dataset
    from nodewise.data.pipeline import batches
    from nodewise.models.training import Recipe

    x = np.arange(100 * 4, dtype=np.uint8).reshape(100, 2, 2, 1)
    y = np.arange(100, dtype=np.uint8)
    data = Dataset(None, (x, y), (x, y))
    cell = make.cell(n=2, batch=10, input=fed)
    stream = batches(cell, data, Recipe(None), rank, warm_up=1)
    for number, (some_x, some_y) in zip(range(1 + 2 * 5), stream, strict=False):
        if number in (0, 1, 6):
            yield some_x.numpy(), some_y.numpy()


def save(frames: dict[str, pd.DataFrame]) -> None:
    """Write each table to its committed file."""
    for name, table in frames.items():
        table.to_parquet(FOLDER / f"{name}.parquet", compression="zstd", index=False)


def renew(what: str) -> None:
    """Recompute and write the committed files of one kind: tables, fits or data."""
    match what:
        case "tables":
            save(tables())
        case "fits":
            save(fits())
        case "data":
            np.savez_compressed(PICTURES, **pictures())
            INTEGERS.write_text(json.dumps(integers(), indent=1) + "\n")
        case _:
            sys.exit(f"{what}: allowed are tables, fits, data")


if __name__ == "__main__":
    sys.path.insert(0, "tests")
    for chosen in sys.argv[1:]:
        renew(chosen)
