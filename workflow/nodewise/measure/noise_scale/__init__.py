"""Measure the gradient noise scale of a model during a short training on real examples.

One worker uses all cores, because nothing is timed.
"""

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from nodewise import data
from nodewise.cluster import lock, process
from nodewise.cluster.channel import Channel, Message
from nodewise.core.cell import Cell
from nodewise.core.errors import UserError
from nodewise.core.files import check_writable, write_text
from nodewise.core.schema import json_text
from nodewise.measure.inputs import check_inputs
from nodewise.measure.period import Period
from nodewise.measure.provenance import command, data_source, provenance
from nodewise.models.weights import read_weights
from nodewise.results.noise_scale import NoiseScale, Point

STEPS = (0, 50, 200)
"""The numbers of training steps after which the noise scale is measured."""
SMALL_BATCH, BIG_BATCH, GROUPS = 32, 512, 4
_TIME_LIMIT_S = 86_400.0  # a long limit, because users can stop it themselves


def measure_noise_scale(
    cell: Cell,
    manifest: Path,
    weights: Path | None,
    *,
    output: Path,
    config: Path,
    progress: Callable[[float], None],
    on_wait: Callable[[], None],
) -> NoiseScale:
    """Train the model of `cell` for some steps, measure its gradients and write the result.

    The model trains on one node with batches of 32, whatever the cell's settings are. No cell is
    measured on this machine at the same time.

    Args:
        cell: names the model, the dataset and the seed.
        manifest: the manifest of the prepared dataset.
        weights: the manifest of pretrained weights, if the model starts from them.
        output: the file to write.
        config: the study that declares the cell.
        progress: called with the share that is done.
        on_wait: called if a cell is being measured on this machine.

    Raises:
        UserError: a manifest cannot be read or is not permitted, there are too few examples,
            training diverged, or the worker failed.
        OSError: the result cannot be written.
    """
    check_writable(output)
    pretrained = read_weights(weights) if weights else None
    source = data.check_arrays(manifest)
    check_inputs(cell, source, pretrained, config)
    if source.train_examples < BIG_BATCH:
        raise UserError(
            f"{source.dataset}: has {source.train_examples} examples; measuring the noise scale "
            f"takes {BIG_BATCH}"
        )
    made = provenance(
        config=config,
        lock=Path("requirements.lock"),
        command=command("snakemake", "--cores", "all", "--force", output, "--configfile", config),
    )
    weights_file = pretrained.file if pretrained else None
    work = partial(_work, cell=cell, manifest=manifest, weights=weights_file)
    with lock.to_itself(on_wait):
        period = Period()
        points = _measured(work, cell.model, progress)
    result = NoiseScale(
        model=cell.model,
        started_at=period.started_at,
        finished_at=period.finished_at(),
        data=data_source(source),
        weights=pretrained.source if pretrained else None,
        provenance=made,
        seed=cell.seed,
        small_batch=SMALL_BATCH,
        big_batch=BIG_BATCH,
        points=points,
    )
    write_text(output, json_text(result))
    return result


def _work(
    rank: int, channel: Channel, *, cell: Cell, manifest: Path, weights: Path | None
) -> Message:
    from nodewise.measure.noise_scale.training import measure_points

    return measure_points(channel, cell, manifest, weights)


class _NoiseScaleJob(process.Job):
    """The one worker."""

    def __init__(
        self, work: Callable[[int, Channel], Message], logs: Path, progress: Callable[[float], None]
    ) -> None:
        preload = ["nodewise.cli", "nodewise.measure.noise_scale.training"]
        super().__init__(1, work, logs=logs, time_limit_s=_TIME_LIMIT_S, preload=preload)
        self._progress = progress

    def on_message(self, rank: int, message: Message) -> None:
        self._progress(message["progress"])


def _measured(
    work: Callable[[int, Channel], Message], model: str, progress: Callable[[float], None]
) -> list[Point]:
    """Run the worker; return its measurements."""
    try:
        with tempfile.TemporaryDirectory() as logs:
            (result,) = _NoiseScaleJob(work, Path(logs), progress).run()
    except process.WorkerError as error:
        print(*error.log_tail, sep="\n", file=sys.stderr)
        raise UserError(f"{model}: {error.reason}") from error
    return [Point.model_validate(point) for point in result["points"]]
