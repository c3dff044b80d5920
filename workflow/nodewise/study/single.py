"""Turn the options of `nodewise measure` into a cell."""

import json
import re
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from nodewise.core.cell import Cell, Extent, Input
from nodewise.core.errors import UserError
from nodewise.core.plain_yaml import NOT_YAML, load_yaml
from nodewise.core.schema import first_error
from nodewise.core.user_function import own_model, parse_spec, with_digest
from nodewise.models.registry import check_project, registry
from nodewise.strategies import STRATEGIES
from nodewise.study.experiment import Trained, own_trained

_NAME = 55  # characters before the digest of a name
_STEPS = 40
_FUNCTION = re.compile(r":|\.(py|keras)$")  # a spec, or a file that should be one
_TIME_LIMIT_S = 86_400.0  # long, because the user can stop a single cell


class SingleRun(NamedTuple):
    """A run of one cell: the options of the command; None for those that were not given."""

    strategy: str
    model: str
    nodes: int
    batch: int
    dataset: str | None = None
    steps: int | None = None
    epochs: int | None = None
    option: tuple[str, ...] = ()
    cluster: str = "local"
    input: Input | None = None


def command_of(options: SingleRun, cell: Cell) -> str:
    """Return the command that measures the cell of the options, without the names of hosts."""
    given = options._asdict()
    if cell.build:
        given |= {"model": cell.build, "dataset": cell.load or cell.dataset}
    if "{" in options.cluster:
        given["cluster"] = json.dumps(cell.cluster.model_dump(mode="json"))
    words = ["nodewise", "measure"]
    for name, value in given.items():
        for one in value if isinstance(value, tuple) else (value,):
            words += [] if one is None else [f"--{name}", str(one)]
    return shlex.join(words)


def cell_of(options: SingleRun) -> Cell:
    """Return the cell that the options describe, as repeat 0.

    Raises:
        UserError: an option is wrong, or two options do not fit together; the message names it.
    """
    steps = options.steps
    if steps is None and options.epochs is None:
        steps = _STEPS
    elif steps is not None and options.epochs is not None:
        raise UserError("--steps and --epochs: give one of them")
    strategy = STRATEGIES.find(options.strategy)
    trained = _trained(options.model, options.dataset)
    cluster = _yaml("--cluster", options.cluster)  # a kind, or all settings: {kind: …}
    settings: Any = cluster if isinstance(cluster, dict) else {"kind": cluster}
    try:
        extent = Extent(steps=steps, epochs=options.epochs)
        checked = strategy.checked(_strategy_options(options.option), options.nodes)
        cell = Cell(
            **trained._asdict(),
            study="nodewise",
            experiment="single_run",
            strategy=options.strategy,
            **strategy.fields(checked, options.input or "sharded"),
            cluster=settings,
            batch=options.batch,
            nodes=options.nodes,
            repeat=0,
            extent=extent,
            seed=1,
            time_limit_s=_TIME_LIMIT_S,
        )
        model = None if cell.build else cell.model
        checked.check_training(cell.nodes, cell.batch, model, extent)
    except ValidationError as error:  # its fields have the names of the options
        raise UserError(f"--{first_error(error)}") from error
    except ValueError as error:
        raise UserError(f"--strategy {options.strategy}: {error}") from error
    try:
        cell.cluster.check_nodes([cell])
    except ValueError as error:
        raise UserError(f"--cluster.{error}") from error
    return cell.model_copy(update=_names(cell, options))


def _names(cell: Cell, options: SingleRun) -> dict[str, str]:
    """Name a cell apart from others: by its strategy's options, cluster, extent and input."""
    names = {}
    if options.option:
        asked = "_".join(sorted(options.option))
        words = re.sub(r"[^a-z0-9]+", "_", f"{options.strategy}_{asked}".lower())
        names["variant"] = with_digest(words[:_NAME], asked)
    fed = "" if options.input in (None, "sharded") else f" {options.input} input"
    if cell.cluster.kind != "local" or cell.extent != Extent(steps=_STEPS) or fed:
        experiment = f"{cell.experiment}_{cell.cluster.kind}"[:_NAME]
        names["experiment"] = with_digest(experiment, f"{cell.cluster.label} {cell.extent}{fed}")
    return names


def _yaml(option: str, text: str) -> Any:  # noqa: ANN401
    try:
        return load_yaml(text)
    except NOT_YAML as error:
        raise UserError(f"{option}: {text!r} cannot be read as YAML") from error


def _strategy_options(pairs: Sequence[str]) -> dict[str, Any]:
    """Parse the options of a strategy from texts `name=value`. Values are read as YAML."""
    parsed: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name in parsed:
            raise UserError(f"--option {pair}: give each option once, as name=value")
        parsed[name] = _yaml(f"--option {name}", value)
    return parsed


def _trained(model: str, dataset: str | None) -> Trained:
    """Return the model and its dataset."""
    if not _FUNCTION.search(model):
        check_project()
        if model not in registry():
            allowed = ", ".join(sorted(registry()))
            raise UserError(f"model {model}: unknown; allowed: {allowed}")
        known = registry()[model].dataset
        if dataset not in (None, known):
            raise UserError(f"--dataset: {model} trains on {known}; only your own models on others")
        return Trained(model, known)
    build = parse_spec(model).text
    if dataset is None:
        raise UserError("--dataset: a model of your own needs one: a name or path/file.py:function")
    dataset = parse_spec(dataset).text if _FUNCTION.search(dataset) else dataset
    return own_trained(own_model(build, dataset), build, dataset)
