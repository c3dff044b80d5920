"""Combine the reports of the processes of a cell into one measurement."""

import math
from typing import Any

from nodewise.cluster import cgroup
from nodewise.cluster.worker_state import WorkerError
from nodewise.core.cell import Cell
from nodewise.results.model_description import FLOAT32_BYTES
from nodewise.results.record import (
    Conditions,
    Epoch,
    Evaluation,
    Measurement,
    StartUp,
    WorkerResult,
)

# Keras' names of accuracy, which depend on the kind of labels
_ACCURACIES = (
    "accuracy",
    "acc",
    "sparse_categorical_accuracy",
    "categorical_accuracy",
    "binary_accuracy",
)


def combine(
    cell: Cell, parts: list[dict[str, Any]], start_up: StartUp, blocks: list[Conditions]
) -> Measurement:
    """Combine the reports of all processes, which are ordered with the workers first.

    Raises:
        WorkerError: the replicas drifted apart, the training diverged, or devices differ.
        ValidationError: the measurement is not valid in a record.
    """
    others, parts = parts[cell.workers :], parts[: cell.workers]
    if len({part["weights_sha256"] for part in parts}) > 1:
        raise WorkerError("the workers' weights differ after training")
    devices = sorted({part["device"] for part in parts})
    if len(devices) > 1:
        raise WorkerError(f"the workers' devices differ: {'; '.join(devices)}")
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
        others_cpu_s=sum(part["cpu_s"] for part in others),
        conditions=blocks[-1],
        discarded=blocks[:-1],
    )


def _epochs(cell: Cell, parts: list[dict[str, Any]]) -> list[Epoch]:
    """Combine the workers' epochs.

    Raises:
        WorkerError: the training diverged.
    """
    epochs = []
    for number, of_workers in enumerate(zip(*(part["epochs"] for part in parts), strict=True), 1):
        loss, accuracy = _scores([(part["logs"], 1) for part in of_workers])
        if loss is not None and not math.isfinite(loss):
            raise WorkerError(
                f"the training diverged: a loss of {loss}; look for numbers in the labels that are "
                "not finite, and for a learning rate that is too large"
            )
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
    """Combine the workers' scores on test examples; return None if there are none."""
    tested = sum(part["examples"] for part in parts)
    if not tested:
        return None
    loss, accuracy = _scores([(part["logs"], part["examples"]) for part in parts])
    return Evaluation(examples=tested, loss=loss, accuracy=accuracy)


def _scores(of_workers: list[tuple[dict[str, float], int]]) -> tuple[float | None, float | None]:
    """Return the mean loss and accuracy of workers, given their logs and weights.

    Each is None if no worker has it. For example, only the last stage of a model has a loss. If a
    model has several metrics of accuracy, the first of _ACCURACIES counts.
    """

    def mean(names: tuple[str, ...]) -> float | None:
        for name in names:
            found = [(logs[name], weight) for logs, weight in of_workers if name in logs]
            if total := sum(weight for _, weight in found):
                return float(sum(value * weight for value, weight in found) / total)
        return None

    return mean(("loss",)), mean(_ACCURACIES)
