"""One cell measured by hand: put together from a command's options, prepared, measured.

Data and weights are prepared by processes of their own: the one that measures must not have used
TensorFlow when it forks its workers.
"""

import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from pydantic import ValidationError

from nodewise.cluster.kinds.emulated import Emulated
from nodewise.core.cell import Cell
from nodewise.core.errors import UserError
from nodewise.core.files import check_writable
from nodewise.core.schema import NOT_YAML, first_misfit, load_yaml
from nodewise.core.user_function import own_dataset_name, parse_spec, told_apart
from nodewise.measure.cell import measure, settle_environment
from nodewise.measure.provenance import told
from nodewise.models.registry import registry, weights_of
from nodewise.results.record import Record
from nodewise.strategies import STRATEGIES

if TYPE_CHECKING:
    from rich.table import Table

RESULTS = Path("results")
BY_HAND = RESULTS / "by_hand"
SEED = 1
_END_WITH_PARENT = ("setpriv", "--pdeathsig", "TERM")  # part of util-linux
_NAME = 55  # letters of a name before its digest: at most 64 with that
_WARMUP_STEPS, _STEPS, _SPLIT_STEPS = 5, 40, 20
_TIME_LIMIT_S = 86_400.0  # whoever measures by hand can stop it by hand


class Options(NamedTuple):
    """What the command was given; None where it was given nothing."""

    strategy: str
    model: str
    nodes: int
    batch: int
    dataset: str | None = None
    steps: int | None = None
    epochs: int | None = None
    option: tuple[str, ...] = ()
    cluster: str = "local"
    cpu: float | None = None
    rate: float | None = None

    def command(self) -> str:
        """Return the command that repeats the measurement."""
        given = [
            (f"--{name}", _in_project(str(one)) if name in ("model", "dataset") else str(one))
            for name, value in self._asdict().items()
            if value is not None
            for one in (value if isinstance(value, tuple) else (value,))
        ]
        return shlex.join(["nodewise", "measure", *itertools.chain(*given)])


def _in_project(spec: str) -> str:
    """Return a name as it is; a function's file as `told`."""
    file, colon, function = spec.rpartition(":")
    return told(Path(file)) + colon + function if "/" in file else spec


def cell_of(options: Options) -> Cell:
    """Return the cell that the options describe, as its first repeat.

    Raises:
        UserError: an option is wrong, or two do not fit together.
    """
    if options.strategy not in STRATEGIES:
        allowed = ", ".join(sorted(STRATEGIES))
        raise UserError(f"--strategy {options.strategy}: unknown; allowed: {allowed}")
    entry = STRATEGIES[options.strategy]
    try:
        chosen = entry.checked(_chosen(options.option), options.nodes)
    except ValueError as error:
        raise UserError(f"--strategy {options.strategy}: {error}") from error
    if options.cluster == "local" and (options.cpu is not None or options.rate is not None):
        raise UserError("--cpu and --rate: only with --cluster emulated")
    try:
        cell = Cell.model_validate(
            _model(options)
            | {
                "study": "nodewise",
                "experiment": _experiment(options),
                "strategy": options.strategy,
                "variant": _variant(options),
                **entry.fields(chosen, "sharded"),
                "cluster": _cluster(options),
                "batch": options.batch,
                "nodes": options.nodes,
                "repeat": 0,
                "extent": _extent(options),
                "seed": SEED,
                "time_limit_s": _TIME_LIMIT_S,
            }
        )
    except ValidationError as error:
        raise UserError(_of_option(first_misfit(error))) from error
    try:
        chosen.check_extent(cell.extent)
        chosen.check_training(cell.nodes, cell.batch, None if cell.build else cell.model)
    except ValueError as error:
        raise UserError(f"--strategy {options.strategy}: {error}") from error
    return cell


def _extent(options: Options) -> dict[str, int]:
    if options.steps is not None and options.epochs is not None:
        raise UserError("--steps and --epochs: give one of them")
    extent = {"warmup_steps": _WARMUP_STEPS, "split_steps": _SPLIT_STEPS}
    if options.epochs is not None:
        return extent | {"epochs": options.epochs}
    return extent | {"steps": _STEPS if options.steps is None else options.steps}


def _of_option(misfit: str) -> str:
    """Return a misfit of a cell with the option that it comes from instead of the cell's field."""
    place, colon, said = misfit.partition(": ")
    field = place.rpartition(".")[2]
    option = "rate" if field == "rate_mbit" else field
    return f"--{option}{colon}{said}" if option in Options._fields else misfit


def _chosen(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Return the options of a strategy that were given as name=value, values read as YAML."""
    chosen: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name in chosen:
            raise UserError(f"--option {pair}: give each option once, as name=value")
        try:
            chosen[name] = load_yaml(value)
        except NOT_YAML as error:
            raise UserError(f"--option {pair}: the value cannot be read as YAML") from error
    return chosen


def _experiment(options: Options) -> str:
    """Return the name of what is measured so: on other nodes, or for longer, is another cell."""
    words = ["by_hand"]
    if options.cluster != "local":
        words += [_plain(Emulated.model_validate(_cluster(options)).label)]
    if options.epochs is not None:
        words += [f"{options.epochs}_epochs"]
    elif options.steps not in (None, _STEPS):
        words += [f"{options.steps}_steps"]
    return "_".join(words)


def _variant(options: Options) -> str | None:
    """Return a name for the strategy with these options: with others it is another cell."""
    if not options.option:
        return None
    given = "_".join(sorted(options.option))
    return told_apart(f"{options.strategy}_{_plain(given)}"[:_NAME], given)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _cluster(options: Options) -> dict[str, Any]:
    if options.cluster == "local":
        return {"kind": "local"}
    emulated: dict[str, Any] = {"kind": "emulated"}
    if options.cpu is not None:
        emulated["node"] = {"cpu": options.cpu}
    if options.rate is not None:
        emulated["link"] = {"rate_mbit": options.rate}
    return emulated


def _model(options: Options) -> dict[str, str]:
    """Return the fields of a cell that model and dataset decide."""
    if ":" not in options.model:
        if options.model not in registry():
            allowed = ", ".join(sorted(registry()))
            raise UserError(
                f"--model {options.model}: unknown; allowed: {allowed}, or path/file.py:function"
            )
        dataset = registry()[options.model].dataset
        if options.dataset not in (None, dataset):
            raise UserError(
                f"--dataset: {options.model} trains on {dataset}; name another for a model of your "
                "own (path/file.py:function)"
            )
        return {"model": options.model, "dataset": dataset}
    place = parse_spec(options.model)
    if options.dataset is None:
        raise UserError("--dataset: a model of your own needs one: a name or path/file.py:function")
    trained = {"build": place.text, "dataset": options.dataset}
    if ":" in options.dataset:
        load = parse_spec(options.dataset).text
        trained |= {"dataset": own_dataset_name(load), "load": load}
    return trained | {"model": told_apart(f"own_{place.name}", " ".join(trained.values()))}


def _prepare(cell: Cell) -> None:
    """Prepare the cell's dataset and weights if they are not; own data always anew.

    Raises:
        SystemExit: one cannot be had; what prepares it has said why.
    """
    data, weights = _data(cell), _weights(cell)
    if cell.load is not None:
        _nodewise("prepare-own-dataset", cell.load, "--out", data.parent)
    elif not data.is_file():
        _nodewise("prepare-dataset", cell.dataset, "--out", data.parent)
    if weights and not weights.is_file():
        _nodewise("prepare-weights", weights.parent.name, "--out", weights.parent)


def _manifests(cell: Cell) -> tuple[Path, Path | None]:
    """Return the manifests of the cell's dataset and of its weights, if it has any.

    Raises:
        UserError: the dataset has fewer examples than a step takes.
    """
    manifest = _data(cell)
    from nodewise.data import load  # NumPy, which reads the settled environment

    examples = load(manifest).manifest.train_examples
    if cell.global_batch > examples:
        raise UserError(
            f"--batch {cell.batch}: a step of {cell.nodes} nodes takes {cell.global_batch} "
            f"examples; {cell.dataset} has {examples}"
        )
    return manifest, _weights(cell)


def _data(cell: Cell) -> Path:
    return RESULTS / "datasets" / cell.dataset / "manifest.json"


def _weights(cell: Cell) -> Path | None:
    name = weights_of(cell.model)
    return RESULTS / "weights" / name / "manifest.json" if name else None


def _nodewise(*arguments: str | Path) -> None:
    """Run another nodewise command, which prints its own errors; it ends with this process."""
    command = [*_END_WITH_PARENT, sys.executable, "-m", "nodewise", *arguments]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, check=False)
    if done.returncode:
        raise SystemExit(done.returncode)


def measure_by_hand(
    options: Options,
    out: Path | None,
    progress: Callable[[float], None],
    on_wait: Callable[[], None],
) -> tuple[Record, Path]:
    """Measure the cell that the options describe; return its record and where it is written.

    Without `out` that is in `results/by_hand`, beside earlier records of the same cell.

    Raises:
        UserError: an option is wrong.
        SystemExit: data or weights cannot be had; what prepares them has said why.
    """
    cell = cell_of(options)
    _prepare(cell)  # with the user's proxies; workers have none
    settle_environment()
    manifest, weights = _manifests(cell)
    if out is None:
        cell = _first_free(cell)
    else:
        check_writable(out)
    path = out or _place(cell)
    record = measure(
        cell,
        manifest,
        weights,
        output=path,
        logs=_logs(cell),
        config=None,
        command=options.command(),
        progress=progress,
        on_wait=on_wait,
    )
    return record, path


def _first_free(cell: Cell) -> Cell:
    """Return the first repeat of the cell that nobody has measured or is measuring.

    The folder of its logs is what it is taken by: of two commands only one can make it.
    """
    while True:
        try:
            _logs(cell).mkdir(parents=True)
        except FileExistsError:
            pass
        else:
            if not _place(cell).exists():
                return cell
        cell = cell.model_copy(update={"repeat": cell.repeat + 1})


def _place(cell: Cell) -> Path:
    return BY_HAND / "records" / f"{cell.id}.json"


def _logs(cell: Cell) -> Path:
    return BY_HAND / "logs" / cell.id


def table(record: Path) -> "Table":
    """Return what a record says, as a short table of quantities and values.

    Raises:
        UserError: the file is no record.
    """
    from rich.table import Table
    from rich.text import Text

    from nodewise.core.units import kind_label, write_number
    from nodewise.results.tables import PARTS, build_tables

    row = build_tables([record], None)["cells"].iloc[0]
    label = kind_label(row["kind"], row["data_origin"], row["weights"])
    low, high = (write_number(row[f"step_time_{end}_s"], "s") for end in ("p10", "p90"))
    parts = [f"{part} {write_number(row[f'{part}_s'], 's')}" for part in PARTS]
    epochs = f"{row['epochs']} epochs" if row["whole_epochs"] else f"{row['steps']} steps"
    values = {
        "kind of numbers": label,
        "data": row["data_origin"],
        "weights": row["weights"] or "none pretrained",
        "trained": f"{epochs} of {row['global_batch']} examples",
        "step time, median": f"{write_number(row['step_time_median_s'], 's')} "
        f"(10 % to 90 % of the steps: {low} to {high})",
        "examples per second": write_number(row["examples_per_s"], "/s"),
        "split of a step": ", ".join(parts),
        "test accuracy": write_number(row["test_accuracy"], "accuracy"),
        "flags": row["flags"] or "none",
        "record": str(record),
    }
    shown = Table(title=row["cell_id"], title_justify="left", show_header=False)
    for quantity, value in values.items():
        shown.add_row(quantity, Text(value, overflow="fold"))
    return shown
