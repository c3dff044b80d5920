"""Turn the options of `nodewise measure` into a single cell: a study with one experiment."""

import itertools
import json
import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from nodewise.core.cell import CLUSTERS, SAVED_MODEL, Cell, ClusterSettings
from nodewise.core.errors import UserError
from nodewise.core.files import project_path
from nodewise.core.plain_yaml import NOT_YAML, load_yaml
from nodewise.core.schema import first_error
from nodewise.core.user_function import own_model, parse_model_spec, parse_spec, with_digest
from nodewise.models.registry import check_project, registry
from nodewise.strategies import STRATEGIES
from nodewise.study.config import Config

_LONGEST = 64  # characters in a name
_NAME = 55  # characters before the digest of a name
_WARMUP_STEPS, _STEPS, _SPLIT_STEPS = 5, 40, 20
_TIME_LIMIT_S = 86_400.0  # long, because the user can stop a single cell

# Locations in validation errors, and the options that set them. The experiment's own location has
# been cut off.
_OPTIONS = (
    (r"models", "--model"),
    (r"own_models\.\w+\.build", "--model"),
    (r"own_models\.\w+\.dataset", "--dataset"),
    (r"batches\[0\]", "--batch"),
    (r"strategies\.\w+\.nodes\[0\]", "--nodes"),
    (r"extent\.(steps|epochs)", r"--\1"),
    (r"node\.cpu", "--cpu"),
    (r"link\.rate_mbit", "--rate"),
)


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
    cpu: float | None = None
    rate: float | None = None

    def command(self) -> str:
        """Return the command that repeats the measurement, without the names of hosts."""
        cluster = self.cluster
        if "{" in cluster:
            cluster = json.dumps(_cluster(self).model_dump(mode="json"))
        given = [
            (f"--{name}", _in_project(str(one)) if name in ("model", "dataset") else str(one))
            for name, value in self._replace(cluster=cluster)._asdict().items()
            if value is not None
            for one in (value if isinstance(value, tuple) else (value,))
        ]
        return shlex.join(["nodewise", "measure", *itertools.chain(*given)])


def _in_project(spec: str) -> str:
    """Shorten the file in a spec with `project_path`; return other names unchanged."""
    file, colon, function = spec.rpartition(":")
    return project_path(Path(file)) + colon + function if "/" in file else spec


def cell_of(options: Options) -> Cell:
    """Return the cell that the options describe, as repeat 0.

    Raises:
        UserError: an option is wrong, or two options do not fit together.
    """
    STRATEGIES.find(options.strategy)
    variant = _variant(options)
    strategy: dict[str, Any] = {"nodes": [options.nodes], "options": _chosen(options.option)}
    if variant:
        strategy["strategy"] = options.strategy
    experiment = {
        "title": "A single cell",
        "study": "nodewise",
        "strategies": {variant or options.strategy: strategy},
        "batches": [options.batch],
        "extent": _extent(options),
        **_models(options),
    }
    name = ""
    try:
        cluster = _cluster(options)
        name = _experiment(options, cluster)
        config = Config.model_validate(
            {
                "name": "single_cell",
                "title": "A single cell",
                "cluster": cluster,
                "cell_time_limit_s": _TIME_LIMIT_S,
                "experiments": {name: experiment},
            }
        )
    except ValidationError as error:
        text = first_error(error).removeprefix(f"experiments.{name}.")
        raise UserError(_of_option(text, options.strategy)) from error
    (cell,) = config.cells()
    return cell


def _extent(options: Options) -> dict[str, int]:
    if options.steps is not None and options.epochs is not None:
        raise UserError("--steps and --epochs: give one of them")
    extent = {"warmup_steps": _WARMUP_STEPS, "split_steps": _SPLIT_STEPS}
    if options.epochs is not None:
        return extent | {"epochs": options.epochs}
    return extent | {"steps": _STEPS if options.steps is None else options.steps}


def _of_option(error: str, strategy: str) -> str:
    """Replace the key in a validation error by the command's option that set it."""
    for place, option in _OPTIONS:
        text, times = re.subn(rf"^{place}: ", f"{option}: ", error)
        if times:
            return text
    return re.sub(r"^strategies\.\w+\.", f"--strategy {strategy}: ", error)


def _chosen(pairs: tuple[str, ...]) -> dict[str, Any]:
    """Parse the options of a strategy from texts `name=value`. Values are read as YAML."""
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


def _experiment(options: Options, cluster: ClusterSettings) -> str:
    """Return the name of the experiment.

    It depends on the cluster and on the length of training, because these make another cell.
    """
    words = ["single_run"]
    if cluster.kind != "local":
        words += [_plain(cluster.label)]
    if options.epochs is not None:
        words += [f"{options.epochs}_epochs"]
    elif options.steps not in (None, _STEPS):
        words += [f"{options.steps}_steps"]
    name = "_".join(words)
    return name if len(name) <= _LONGEST else with_digest(name[:_NAME], name)


def _variant(options: Options) -> str | None:
    """Return a name for the strategy with its options; None if no options were given.

    It is unique, because other options make another cell.
    """
    if not options.option:
        return None
    given = "_".join(sorted(options.option))
    return with_digest(f"{options.strategy}_{_plain(given)}"[:_NAME], given)


def _plain(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def _cluster(options: Options) -> ClusterSettings:
    """Return the settings of `--cluster`, which is a kind or all settings as YAML: `{kind: …}`."""
    try:
        given = load_yaml(options.cluster)
    except NOT_YAML as error:
        raise UserError(f"--cluster {options.cluster}: cannot be read as YAML") from error
    settings = dict(given) if isinstance(given, dict) else {"kind": given}
    kind = str(settings.get("kind"))
    if kind != "emulated" and (options.cpu is not None or options.rate is not None):
        raise UserError("--cpu and --rate: only with --cluster emulated")
    if options.cpu is not None:
        settings["node"] = {"cpu": options.cpu}
    if options.rate is not None:
        settings["link"] = {"rate_mbit": options.rate}
    return CLUSTERS.find(kind).model_validate(settings)


def _models(options: Options) -> dict[str, Any]:
    """Return the keys of an experiment that define its model and dataset."""
    if ":" not in options.model and not options.model.endswith(SAVED_MODEL):
        check_project()
        known = registry().get(options.model)
        if known and options.dataset not in (None, known.dataset):
            raise UserError(
                f"--dataset: {options.model} trains on {known.dataset}; name another for a model "
                "of your own (path/file.py:function or a .keras file)"
            )
        return {"models": [options.model]}
    place, dataset = parse_model_spec(options.model), options.dataset
    if dataset is None:
        raise UserError("--dataset: a model of your own needs one: a name or path/file.py:function")
    if ":" in dataset:
        dataset = parse_spec(dataset).text
    name = own_model(place.text, dataset)
    return {"own_models": {name: {"build": place.text, "dataset": dataset}}}
