"""Do launches of a cell differ as much when forked from one process as when each is started anew?

Intervals of measured times come of how launches differ. A run of the workflow forks all of them
from one process; if these were more alike than commands that are started by hand, intervals would
be too narrow. Both run the same cells, by turns. The machine drifts, so that the spread is that of
a launch's median step around the launches beside it: half the squared steps from one to the next
(von Neumann et al., The Mean Square Successive Difference, 1941).
"""

import os
import tempfile
from pathlib import Path
from statistics import mean, median

import cell_start
import numpy as np
import yaml

from nodewise.config import read_config
from nodewise.records import Measurement

ROUNDS = 16
RESAMPLES = 4_000
EXTENT = {"warmup_steps": 3, "steps": 30, "split_steps": 0}
STUDY = {
    "name": "spread",
    "title": "Spread",
    "experiments": {
        "spread": cell_start.experiment({"kind": "local"}, [2])
        | {"strategies": {"single": {"nodes": [1]}, "multi_worker_mirrored": {"nodes": [2]}}}
        | {"extent": EXTENT}
    },
}


def main() -> None:
    """Measure every cell in both ways, by turns, and print how its launches spread."""
    cell_start.prepare()
    environments = {"forked": dict(os.environ), "started": cell_start.without_server()}
    with tempfile.TemporaryDirectory() as folder:
        config = Path(folder, "study.yaml")
        config.write_text(yaml.safe_dump(STUDY))
        cells = read_config(config).cells()
        logs = {(cell.id, way): [] for cell in cells for way in environments}
        for turn in range(ROUNDS):
            for cell in cells:
                for way in [*environments][:: 1 if turn % 2 else -1]:
                    result = cell_start.measured(cell, config, Path(folder), environments[way])
                    logs[cell.id, way].append(np.log(step_us(result)))
    for cell in cells:
        tell(cell.id, *(np.array(logs[cell.id, way]) for way in environments))


def step_us(result: Measurement) -> float:
    """Return the median over steps of the slowest worker's time."""
    return median(np.max([worker.step_us for worker in result.workers], axis=0))


def tell(name: str, forked: np.ndarray, started: np.ndarray) -> None:
    """Print the spreads and their ratio with its 90 % interval, and the ratio of the times."""
    random = np.random.default_rng(1)
    picks = random.integers(0, ROUNDS - 1, (RESAMPLES, ROUNDS - 1))
    squares = [np.diff(logs) ** 2 / 2 for logs in (forked, started)]
    ratios = np.sqrt(squares[0][picks].mean(1) / squares[1][picks].mean(1))
    low, high = np.quantile(ratios, [0.05, 0.95])
    spreads = [100 * np.sqrt(mean(square)) for square in squares]
    print(f"{name}, {ROUNDS} launches each way")
    print(f"  spread: forked {spreads[0]:.2f} %, started {spreads[1]:.2f} %")
    print(f"  ratio of spreads {spreads[0] / spreads[1]:.2f} ({low:.2f} to {high:.2f})")
    print(f"  ratio of times, median of turns {np.exp(median(forked - started)):.3f}")


if __name__ == "__main__":
    main()
