"""Put together what the processes of a cell report: one measurement."""

import math
from typing import Any

from nodewise.cluster import cgroup
from nodewise.cluster.worker_state import WorkerError
from nodewise.core.cell import Cell
from nodewise.results.measurement import (
    Conditions,
    Epoch,
    Evaluation,
    Measurement,
    StartUp,
    WorkerResult,
)
from nodewise.results.model_description import FLOAT32_BYTES

# how Keras names what people call accuracy, by the kind of labels
_ACCURACIES = (
    "accuracy",
    "sparse_categorical_accuracy",
    "categorical_accuracy",
    "binary_accuracy",
)


def combine(
    cell: Cell, parts: list[dict[str, Any]], start_up: StartUp, blocks: list[Conditions]
) -> Measurement:
    """Put the parts of all processes together, those of the workers first.

    Raises:
        WorkerError: the replicas drifted apart, the training diverged, or devices differ.
        ValidationError: what was measured fits no record.
    """
    others, parts = parts[cell.workers :], parts[: cell.workers]
    if len({part["weights_sha256"] for part in parts}) > 1:
        raise WorkerError("the workers' weights differ after training", None, [])
    devices = sorted({part["device"] for part in parts})
    if len(devices) > 1:
        raise WorkerError(f"the workers' devices differ: {'; '.join(devices)}", None, [])
    first = parts[0]
    workers = [
        WorkerResult.model_validate({key: part[key] for key in WorkerResult.model_fields})
        for part in parts
    ]
    return Measurement(
        trainable_parameters=first["trainable_parameters"],
        total_parameters=first["total_parameters"],
        payload_bytes=FLOAT32_BYTES * first["trainable_parameters"],
        steps_per_epoch=first["steps_per_epoch"],
        whole_epochs=cell.extent.epochs is not None,
        start_up=start_up,
        workers=workers,
        epochs=_epochs(cell, parts),
        test=_evaluation([part["test"] for part in parts if part["test"]]),
        oversubscribed=cell.cores > cgroup.cores(),
        # a meter counts the whole machine, for which time passes otherwise than for emulated nodes
        energy_j=first["energy_j"] if cell.cluster.kind == "local" else None,
        others_cpu_s=sum(part["cpu_s"] for part in others),
        conditions=blocks[-1],
        discarded=blocks[:-1],
    )


def _epochs(cell: Cell, parts: list[dict[str, Any]]) -> list[Epoch]:
    """Put the workers' epochs together; refuse those of a training that diverged."""
    epochs = []
    for number, of_workers in enumerate(zip(*(part["epochs"] for part in parts), strict=True), 1):
        loss, accuracy = _scores([(part["logs"], 1) for part in of_workers])
        if loss is not None and not math.isfinite(loss):
            raise WorkerError(f"the training diverged: a loss of {loss}", None, [])
        epochs.append(
            Epoch(
                epoch=number,
                steps=of_workers[0]["steps"],
                seconds=max(part["seconds"] for part in of_workers),
                loss=loss,
                accuracy=accuracy,
            )
        )
    return epochs


def _evaluation(parts: list[dict[str, Any]]) -> Evaluation | None:
    """Put together what the workers scored; None if nothing was."""
    tested = sum(part["examples"] for part in parts)
    if not tested:
        return None
    loss, accuracy = _scores([(part["logs"], part["examples"]) for part in parts])
    return Evaluation(examples=tested, loss=loss, accuracy=accuracy)


def _scores(of_workers: list[tuple[dict[str, float], int]]) -> tuple[float | None, float | None]:
    """Return loss and accuracy, means over workers with their logs and weights.

    None is what no worker has: a stage of a model that is not its last has neither.
    """

    def mean(names: tuple[str, ...]) -> float | None:
        found = [
            (logs[name], weight) for logs, weight in of_workers for name in names if name in logs
        ]
        total = sum(weight for _, weight in found)
        return sum(value * weight for value, weight in found) / total if total else None

    return mean(("loss",)), mean(_ACCURACIES)
