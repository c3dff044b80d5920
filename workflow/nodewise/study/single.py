"""Turn the options of `nodewise measure` into a cell."""

import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from nodewise.core.cell import CLUSTERS, SAVED_MODEL, Cell, ClusterSettings, Extent
from nodewise.core.errors import UserError
from nodewise.core.files import project_path
from nodewise.core.plain_yaml import NOT_YAML, load_yaml
from nodewise.core.schema import first_error
from nodewise.core.user_function import (
    own_dataset_name,
    own_model,
    parse_model_spec,
    parse_spec,
    with_digest,
)
from nodewise.models.registry import check_project, registry
from nodewise.strategies import STRATEGIES
from nodewise.study.experiment import Trained

_NAME = 55  # characters before the digest of a name
_STEPS = 40
_TIME_LIMIT_S = 86_400.0  # long, because the user can stop a single cell


class Options(NamedTuple):
    """Options of the command; None for those that were not given."""

    strategy: str
    model: str
    nodes: int
    batch: int
    dataset: str | None = None
    steps: int | None = None
    epochs: int | None = None
    option: tuple[str, ...] = ()
    cluster: str = "local"

    def command(self) -> str:
        """Return the command that repeats the measurement, without the names of hosts."""
        given = self._asdict()
        for name in ("model", "dataset"):
            file, colon, function = (given[name] or "").rpartition(":")
            if "/" in file:
                given[name] = project_path(Path(file)) + colon + function
        if "{" in self.cluster:
            given["cluster"] = json.dumps(_cluster(self).model_dump(mode="json"))
        words = ["nodewise", "measure"]
        for name, value in given.items():
            for one in value if isinstance(value, tuple) else (value,):
                words += [] if one is None else [f"--{name}", str(one)]
        return shlex.join(words)


def cell_of(options: Options) -> Cell:
    """Return the cell that the options describe, as repeat 0.

    Raises:
        UserError: an option is wrong, or two options do not fit together; the message names it.
    """
    if options.steps is not None and options.epochs is not None:
        raise UserError("--steps and --epochs: give one of them")
    strategy = STRATEGIES.find(options.strategy)
    cluster, trained, given = _cluster(options), _trained(options), _strategy_options(options)
    steps = _STEPS if options.epochs is options.steps is None else options.steps
    # other options of the strategy, another cluster or another extent make another cell
    variant, experiment = None, "single_run"
    if given:
        asked = "_".join(sorted(options.option))
        words = re.sub(r"[^a-z0-9]+", "_", f"{options.strategy}_{asked}".lower())
        variant = with_digest(words[:_NAME], asked)
    try:
        extent = Extent(steps=steps, epochs=options.epochs)
        if cluster.kind != "local" or extent != Extent(steps=_STEPS):
            content = f"{cluster.label} {extent}"
            experiment = with_digest(f"{experiment}_{cluster.kind}"[:_NAME], content)
        checked = strategy.checked(given, options.nodes)
        cell = Cell(
            **trained._asdict(),
            study="nodewise",
            experiment=experiment,
            strategy=options.strategy,
            variant=variant,
            **strategy.fields(checked, "sharded"),
            cluster=cluster,
            batch=options.batch,
            nodes=options.nodes,
            repeat=0,
            extent=extent,
            seed=1,
            time_limit_s=_TIME_LIMIT_S,
        )
        checked.check_extent(extent)
        checked.check_training(cell.nodes, cell.batch, None if cell.build else cell.model)
    except ValidationError as error:  # its fields have the names of the options
        raise UserError(f"--{first_error(error)}") from error
    except ValueError as error:
        raise UserError(f"--strategy {options.strategy}: {error}") from error
    try:
        cluster.check_nodes(cell.nodes, [cell.strategy] if cell.one_process else [])
    except ValueError as error:
        raise UserError(f"--cluster: {error}") from error
    return cell


def _yaml(option: str, text: str) -> Any:  # noqa: ANN401
    try:
        return load_yaml(text)
    except NOT_YAML as error:
        raise UserError(f"{option}: {text!r} cannot be read as YAML") from error


def _strategy_options(options: Options) -> dict[str, Any]:
    """Parse the options of a strategy from texts `name=value`. Values are read as YAML."""
    parsed: dict[str, Any] = {}
    for pair in options.option:
        name, equals, value = pair.partition("=")
        if not equals or name in parsed:
            raise UserError(f"--option {pair}: give each option once, as name=value")
        parsed[name] = _yaml(f"--option {name}", value)
    return parsed


def _cluster(options: Options) -> ClusterSettings:
    """Return the settings of `--cluster`, which is a kind or all settings as YAML: `{kind: …}`."""
    given = _yaml("--cluster", options.cluster)
    settings = given if isinstance(given, dict) else {"kind": given}
    try:
        return CLUSTERS.find(str(settings.get("kind"))).model_validate(settings)
    except ValidationError as error:
        raise UserError(f"--cluster: {first_error(error)}") from error


def _trained(options: Options) -> Trained:
    """Return the model and its dataset."""
    model, dataset = options.model, options.dataset
    if ":" not in model and not model.endswith(SAVED_MODEL):
        check_project()
        if model not in registry():
            allowed = ", ".join(sorted(registry()))
            raise UserError(f"--model: unknown name {model!r}; allowed: {allowed}")
        known = registry()[model].dataset
        if dataset not in (None, known):
            raise UserError(f"--dataset: {model} trains on {known}; only your own models on others")
        return Trained(model, known)
    if dataset is None:
        raise UserError("--dataset: a model of your own needs one: a name or path/file.py:function")
    build = parse_model_spec(model).text
    load = parse_spec(dataset).text if ":" in dataset else None
    name = own_dataset_name(load) if load else dataset
    return Trained(own_model(build, load or dataset), name, build, load)
