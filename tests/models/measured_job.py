"""Measure kinds of models one by one, from user file to record, as `nodewise measure` does."""

import contextlib
import json
import multiprocessing
from pathlib import Path

from nodewise.core.user_function import own_dataset_name
from nodewise.measure.cell import measure
from nodewise.study.config import PREPARED
from nodewise.study.single import Options, cell_of

BATCH = 6
FILE = """
import kinds

def build():
    return kinds.builder({kind!r})({batch})

def load():
    import tensorflow as tf
    train, test = kinds.load({kind!r})
    if test is None:
        test = tf.nest.map_structure(lambda array: array[:21], train)
    return train, test if {tested} else None
"""


def main(folder: Path, kinds: dict[str, bool]) -> None:
    """Train one epoch of each kind on two workers, and print its status and failure.

    The values of `kinds` say whether the kind is also tested.
    """
    found = {}
    with contextlib.chdir(folder):
        for kind, tested in kinds.items():
            batch = BATCH if kind == "stateful" else ""
            Path(f"mine_{kind}.py").write_text(FILE.format(kind=kind, tested=tested, batch=batch))
        # A process that has used TensorFlow cannot fork workers: prepare the data in another one.
        context = multiprocessing.get_context("spawn")
        preparing = context.Process(target=prepare, args=(list(kinds),))
        preparing.start()
        preparing.join()
        for kind in kinds:
            mine = f"mine_{kind}.py"
            options = Options("custom_loop", f"{mine}:build", 2, BATCH, f"{mine}:load", epochs=1)
            record = measure(
                cell_of(options),
                output=Path(f"{kind}.json"),
                logs=Path("logs") / kind,
                config=None,
                command="a test",
            )
            tested = record.result is not None and record.result.test is not None
            reason = record.failure.reason if record.failure else ""
            found[kind] = record.status, reason, tested
    print(json.dumps(found))


def prepare(kinds: list[str]) -> None:
    from nodewise.data import user_data

    for load in (f"mine_{kind}.py:load" for kind in kinds):
        user_data.prepare(load, PREPARED / own_dataset_name(load))
