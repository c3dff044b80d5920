"""Time `fit` of a file of many curves of four points (target: 5,000 in 60 s, 12 ms each).

python bench/fit_speed.py [CURVES]
"""

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from nodewise.predict.fit_file import fit_measurements, write_fit
from nodewise.predict.law import LAWS
from nodewise.predict.points import Points
from nodewise.results.importers import import_curves

NODES, BATCH = (1, 2, 4, 8), 64
TRUTH = dict.fromkeys((p.name for p in LAWS["ring"].parameters), 0.0) | {
    "compute_fixed_s": 0.01,
    "compute_per_example_s": 1e-3,
    "jitter_share": 0.02,
    "latency_s": 2e-4,
    "seconds_per_byte": 1e-8,
}
T = TypeVar("T")


def table(count: int) -> pd.DataFrame:
    """Return curves of a synthetic ring, each with its own payload and 4 % noise."""
    rng = np.random.default_rng(1)
    curves = []
    for i in range(count):
        payload = round(10 ** rng.uniform(6, 8))
        step_s = LAWS["ring"].seconds(TRUTH, Points.of(NODES, BATCH, payload))["step"]
        step_s = step_s * np.exp(0.04 * rng.standard_normal(len(NODES)))
        about: dict[str, Any] = {
            "curve": f"curve {i}",
            "batch_per_worker": BATCH,
            "payload_bytes": payload,
        }
        curves.append(pd.DataFrame({"nodes": NODES, "step_time_s": step_s}).assign(**about))
    return pd.concat(curves)


def timed(title: str, curves: int, job: Callable[[], T]) -> T:
    began = time.perf_counter()
    result = job()
    seconds = time.perf_counter() - began
    print(f"{title:8} {seconds:6.1f} s, {1e3 * seconds / curves:5.1f} ms per curve", flush=True)
    return result


def main(count: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "curves.csv")
        table(count).to_csv(file, index=False)
        read = timed("import", count, lambda: import_curves(file))
        fitted = timed("fit", count, lambda: fit_measurements(read))
        timed("write", count, lambda: write_fit(Path(folder, "fit.json"), fitted))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 5000)
