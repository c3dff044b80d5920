"""Commands in README and other documents work, named files exist, and texts agree with the code."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
import yaml
from pydantic import TypeAdapter
from pydantic.fields import FieldInfo
from snakemake.cli import get_argument_parser
from typer.main import get_command

from nodewise import cli
from nodewise.cluster.kinds.emulated import Emulated
from nodewise.cluster.kinds.local import Local
from nodewise.cluster.kinds.slurm import Slurm
from nodewise.cluster.kinds.ssh import Ssh
from nodewise.core.cell import Extent, Frozen
from nodewise.strategies import STRATEGIES
from nodewise.study.config import DEFAULT, Config, Data, Runs, check_files_exist, read_config
from nodewise.study.experiment import Experiment, OwnModel, StrategyAxes

CONFIG, PAGES = Path("config/README.md"), Path("site/pages")
DOCUMENTS = [CONFIG, *map(Path, ("README.md", "bench/README.md", "data/records/README.md"))]
DOCUMENTS += [PAGES / f"{name}.md" for name in ("run", "add", "add-to-site", "clusters", "gpus")]
DOCUMENTS += [PAGES / f"{name}.md" for name in ("import-logs", "own", "own-model")]
PROGRAMS = {".venv/bin/snakemake": "snakemake", ".venv/bin/nodewise": "nodewise"}
FOLDERS = {path.name for path in Path().iterdir() if path.is_dir()} - {"build", "results"}


def blocks(text: str, *languages: str) -> list[str]:
    """Return the contents of the fenced code blocks in the given languages."""
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


def code(text: str) -> list[str]:
    """Return the inline code of a document, without its code blocks."""
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.findall(r"`([^`\n]+)`", outside)


def commands(text: str) -> list[list[str]]:
    """Return the commands of all shell blocks, split into words, without environment variables."""
    lines = "\n".join(blocks(text, "sh", "bash")).replace("\\\n", " ").splitlines()
    split = [shlex.split(line, comments=True) for line in lines]
    bare = [[word for word in words if not re.match(r"[A-Z_]+=", word)] for words in split]
    return [[PROGRAMS.get(words[0], words[0]), *words[1:]] for words in bare if words]


def cases(program: str) -> list[Any]:
    """Return every command of a program in any document, as test parameters."""
    return [
        pytest.param(words[1:], id=f"{path}: {' '.join(words)[:60]}")
        for path in DOCUMENTS
        for words in commands(path.read_text())
        if words[0] == program
    ]


@pytest.mark.parametrize("words", cases("nodewise"))
def test_nodewise_takes_every_command_of_the_documents(words):
    name, *arguments = words
    get_command(cli.app).commands[name].make_context(name, arguments)


@pytest.mark.parametrize("words", cases("snakemake"))
def test_snakemake_takes_every_command_of_the_documents(words):
    asked = get_argument_parser(profiles=[]).parse_args(words)
    assert asked.cores or asked.profile, "Snakemake needs to know the number of cores"
    for file in asked.configfile or ():
        assert Path(file).is_file()


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z-]+):", Path("Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_other_commands_exist_with_their_options(path):
    known = get_command(cli.app).commands
    for words in commands(path.read_text()):
        assert words[0] != "make" or {*words[1:]} <= make_targets()
    for words in map(str.split, code(path.read_text())):
        if words[0] == "nodewise" and len(words) > 1 and words != ["nodewise", "--help"]:
            options = {option for param in known[words[1]].params for option in param.opts}
            assert {word for word in words if word.startswith("-")} <= options | {"--help"}, words
        if PROGRAMS.get(words[0], words[0]) == "snakemake" and len(words) > 1:
            assert {"--cores", "--profile"} & {*words}, words
        if words[0] == "make":
            assert words[1] in make_targets()


# Links between pages of the site are checked when the site is built.
@pytest.mark.parametrize("path", [path for path in DOCUMENTS if path.parent != PAGES], ids=str)
def test_links_lead_to_files_and_headings(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
        if "://" in target:
            continue
        file, _, anchor = target.partition("#")
        assert (path.parent / file).exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", (path.parent / file).read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^a-z0-9]+", "-", one.lower()) for one in headings}, target


@pytest.mark.parametrize("path", DOCUMENTS, ids=str)
def test_files_that_are_named_exist(path):
    text = path.read_text()
    words = [word for block in blocks(text, "sh") for word in block.split()] + code(text)
    for word in words:
        file = word.partition(":")[0]
        placeholder = re.search(r"[<>*{}$ ]|my[_-]|[A-Z]{4}\.", file)
        if file.partition("/")[0] in FOLDERS and "/" in file and not placeholder:
            generated = file.startswith(("data/cache", ".venv"))
            assert Path(file).exists() or generated, word


def test_every_benchmark_is_explained_and_no_other():
    named = set(re.findall(r"^\| `(\w+\.py)`", Path("bench/README.md").read_text(), re.MULTILINE))
    assert named == {path.name for path in Path("bench").glob("*.py")}


MODELS: dict[str, type[Frozen]] = {
    "Top level": Config,
    "`data`": Data,
    "`cluster`: plain processes": Local,
    "`cluster`: emulated nodes": Emulated,
    "`cluster`: SSH hosts": Ssh,
    "`cluster`: a Slurm allocation": Slurm,
    "`experiments.<name>`": Experiment,
    "`experiments.<name>.extent`": Extent,
    "`experiments.<name>.strategies.<name>`": StrategyAxes,
    "A model of your own": OwnModel,
    "`changes`": Runs,
}


def rows() -> Iterator[tuple[str, str, str, list[str]]]:
    """Yield section, strategy (for options, else empty), key, and the other cells of every row."""
    for text in re.split(r"^## ", CONFIG.read_text(), flags=re.MULTILINE)[1:]:
        section, of_strategies = text.splitlines()[0], "\n| strategy |" in text
        for line in re.findall(r"^\| `.*", text, re.MULTILINE):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            strategy, key = cells[0] if of_strategies else "", cells[of_strategies]
            yield section, strategy.strip("`"), key.strip("`"), cells[1 + of_strategies :]


ROWS = list(rows())


def fields(model: type[Frozen]) -> dict[str, FieldInfo]:
    """Return the fields of a model, and those of models in it under names such as `node.cpu`."""
    known = dict(model.model_fields)
    for name, one in model.model_fields.items():
        for nested in _models(one.annotation):
            known |= {f"{name}.{key}": field for key, field in fields(nested).items()}
    return known


def _models(annotation: Any) -> list[type[Frozen]]:
    if isinstance(annotation, type) and issubclass(annotation, Frozen):
        return [annotation]
    if get_origin(annotation) in (Union, UnionType):
        return [one for part in get_args(annotation) for one in _models(part)]
    return []


@pytest.mark.parametrize("section", MODELS)
def test_every_key_of_a_configuration_is_documented_and_no_other(section):
    named, model = {key for at, _, key, _ in ROWS if at == section}, MODELS[section]
    known = set(fields(model))
    if model is Emulated:  # whose keys such as `node.cpu` are documented here
        parents = {key.rpartition(".")[0] for key in known}
        assert known - parents <= named <= known
    else:
        assert named == set(model.model_fields)


def test_every_option_of_a_strategy_is_documented_and_no_other():
    known = [(name, of) for name, entry in STRATEGIES.items() for of in entry.options.model_fields]
    assert sorted((s, key) for _, s, key, _ in ROWS if s) == sorted(known)


@pytest.mark.parametrize(
    ("section", "strategy", "key", "cells"), ROWS, ids=[" ".join(row[:3]) for row in ROWS]
)
def test_documented_defaults_are_those_of_the_code(section, strategy, key, cells):
    one = fields(STRATEGIES[strategy].options if strategy else MODELS[section])[key]
    said = cells[2]
    default = one.get_default(call_default_factory=True)
    kind = TypeAdapter(Annotated[one.annotation, *one.metadata, None])
    if one.is_required() or key == "kind":
        assert said == "required"
    elif said.startswith("`"):
        assert kind.validate_python(yaml.safe_load(said.strip("`"))) == default
    else:
        assert default in (None, {}, []), said
        assert said != "required"


def test_the_clusters_of_the_guide_can_measure_the_study_that_it_names(tmp_path):
    smoke = yaml.safe_load(Path("config/smoke.yaml").read_text())
    given = blocks((PAGES / "clusters.md").read_text(), "yaml")
    assert len(given) == 2
    for block in given:
        (tmp_path / "study.yaml").write_text(yaml.safe_dump(smoke | yaml.safe_load(block)))
        named = yaml.safe_load(block)["cluster"]["name"]
        assert read_config(tmp_path / "study.yaml").calibrated_cluster()[0].label == named


def test_the_study_of_the_guide_to_gpus_is_valid(tmp_path):
    (study,) = blocks((PAGES / "gpus.md").read_text(), "yaml")
    (tmp_path / "study.yaml").write_text(study)
    check_files_exist(read_config(tmp_path / "study.yaml"))


def test_the_complete_example_is_valid(tmp_path):
    (example,) = blocks(CONFIG.read_text(), "yaml")
    (tmp_path / "study.yaml").write_text(example)
    config = read_config(tmp_path / "study.yaml")
    check_files_exist(config)
    said = re.search(r"This study has (\d+) cells", CONFIG.read_text())
    assert said and len(config.cells()) == int(said[1])


def test_the_table_of_studies_names_all_of_them():
    named = re.findall(r"^\| \[(\w+\.yaml)\]", CONFIG.read_text(), re.MULTILINE)
    assert sorted(named) == sorted(path.name for path in Path("config").glob("*.yaml"))
    assert f"]({Path(DEFAULT).name}) | the default" in CONFIG.read_text()
