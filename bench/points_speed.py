"""Time `predict --at` of many points that all differ (target: 100,000 in 15 s).

python bench/points_speed.py [POINTS]
"""

import sys
import tempfile
import time
from pathlib import Path

import pandas as pd
from fit_speed import BATCH, table

from nodewise.predict.fit_file import fit_measurements
from nodewise.predict.question_files import predict_points
from nodewise.results.importers import import_curves

CURVES = 40


def main(count: int) -> None:
    by_law = table(CURVES // 2)
    # without the size of its gradient, a curve is compared with published ones
    by_comparison = by_law.assign(curve="like " + by_law["curve"]).drop(columns="payload_bytes")
    curves = pd.concat([by_law, by_comparison])
    asked = pd.DataFrame({"point": range(count)})
    names = curves["curve"].unique()
    asked["curve"] = [names[i % len(names)] for i in range(count)]
    asked["n_devices"] = asked["point"] // len(names) + 1
    asked.loc[asked["curve"].str.startswith("curve"), "batch_per_device"] = BATCH + asked["point"]
    with tempfile.TemporaryDirectory() as folder:
        file, points = Path(folder, "curves.csv"), Path(folder, "points.csv")
        curves.to_csv(file, index=False)
        asked.to_csv(points, index=False)
        fitted = fit_measurements(import_curves(file))
        began = time.perf_counter()
        rows = predict_points(fitted, points)
        seconds = time.perf_counter() - began
    wrong = sum("error" in row for row in rows)
    print(f"{len(rows):,} points of {CURVES} curves in {seconds:.1f} s, {wrong} errors")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
