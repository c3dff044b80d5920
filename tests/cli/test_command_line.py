"""Every command reports an error of the user or the system in one line; its help has an example."""

import os
import resource
import shutil
import signal
import subprocess
import sys

import pytest
from typer.main import get_command

import numbers_only
import projects
from nodewise.cli import app
from nodewise.cli.options import WORKFLOW
from nodewise.models.facts import facts
from nodewise.models.registry import registry
from nodewise.strategies import STRATEGIES

NODEWISE = (sys.executable, "-m", "nodewise")
FIT = ("fit", "data/templates/measurements.csv", "-o")
COMMANDS = get_command(app).commands
SLOW_DATA = "import time\n\ndef load():\n    print('begun', flush=True)\n    time.sleep(60)\n"
HEAVY = {"altair", "jinja2", "matplotlib", "mkdocs", "numpy", "pandas", "pyarrow", "pydantic"}
HEAVY |= {"scipy", "snakemake", "tensorflow", "yaml"}


def run(*arguments: str, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*NODEWISE, *arguments],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
        **{"stdout": subprocess.PIPE} | options,
    )


@pytest.mark.parametrize(
    ("number", "code", "says"),
    [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")],
)
def test_a_command_that_a_signal_ends_says_so_in_one_line(tmp_path, number, code, says):
    """It is no failure of the user's function that runs."""
    (tmp_path / "slow.py").write_text(SLOW_DATA)
    # A command inherits an ignored SIGINT, as from tests that run in the background.
    ignored = signal.SIG_IGN if number == signal.SIGTERM else signal.default_int_handler
    before = signal.signal(signal.SIGINT, ignored)
    command = subprocess.Popen(
        [*NODEWISE, "prepare", "slow.py:load", "--keep-refusal"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    signal.signal(signal.SIGINT, before)
    with command:
        command.stdout.readline()
        command.send_signal(number)
        said = command.stderr.read()
    assert (command.returncode, said) == (code, f"nodewise: {says}\n".encode())
    assert not (tmp_path / "results").exists()


def test_an_ignored_backend_is_named_where_something_is_measured():
    for command in (["plan", "--config", "none.yaml"], ["measure", "--model=none"]):
        done = run(*command, env=os.environ | {"KERAS_BACKEND": "jax"})
        assert "KERAS_BACKEND=jax is ignored" in done.stderr


@pytest.mark.parametrize("arguments", [["models"], ["--help"]])
def test_a_reader_that_has_gone_is_no_mistake(arguments):
    reader, writer = os.pipe()
    os.close(reader)
    done = run(*arguments, stdout=writer)
    os.close(writer)
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("pla", "No such command 'pla'. Did you mean 'plan', 'explain'?"),
        ("models --nope", "No such option: --nope"),
        ("measure --strategy single --model fashion_cnn", "Missing option '--nodes'"),
        ("prepare mnist --source web", "Invalid value for '--source': 'web' is not one of 'any',"),
    ],
)
def test_a_mistake_in_the_command_line_is_one_line(words, said):
    done = run(*words.split())
    assert done.returncode == 2
    assert done.stderr.startswith(f"nodewise: {said}") and done.stderr.count("\n") == 1
    assert done.stderr.endswith("; --help shows what is allowed\n")


def test_a_file_that_may_not_grow_is_named(tmp_path):
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

    done = run(*FIT, f"{tmp_path}/fit.json", preexec_fn=limit)
    assert done.returncode == 2
    assert done.stderr == f"nodewise: {tmp_path}/fit.json: File too large\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "name", [name for name, one in COMMANDS.items() if one.rich_help_panel != WORKFLOW]
)
def test_the_help_of_every_command_has_an_example(name):
    assert f"nodewise {name}" in " ".join(COMMANDS[name].help.partition("Example")[2].split())


def test_help_waits_for_no_library_and_keras_uses_tensorflow_whatever_the_shell_says():
    script = (
        "import os, sys; from nodewise.cli import main; sys.argv = ['nodewise', '--help']\n"
        "try: main()\n"
        "finally: print(os.environ['KERAS_BACKEND'], *sys.modules)"
    )
    printed = projects.python("-c", script, KERAS_BACKEND="jax")
    backend, *modules = printed.splitlines()[-1].split()
    assert (backend, HEAVY & {*modules}) == ("tensorflow", set())


def test_answers_from_numbers_need_no_extra_and_no_unix(tmp_path):
    shutil.copy(FIT[1], tmp_path)
    (tmp_path / "run.log").write_text("time 12ms\n" * 9)
    projects.finish(projects.start(tmp_path, sys.executable, numbers_only.__file__))


# --- lists ---


def listed(command):
    """Return the lines that a command prints, as words."""
    printed = projects.python("-m", "nodewise", command)
    return [line.split() for line in printed.splitlines() if line.strip()]


def test_every_model_is_listed_with_its_operations_per_byte():
    rows = {words[0]: words for words in listed("models")}
    for name in registry():
        assert f"{facts(name).trainable:,}" in rows[name]
        assert rows[name][-1] == f"{64 * facts(name).flops_per_payload_byte:,.0f}"


def test_every_strategy_is_listed_with_its_options():
    rows = listed("strategies")
    assert {*STRATEGIES} <= {words[0] for words in rows}
    options = {word.partition("=")[0] for words in rows for word in words if "=" in word}
    assert options == {name for one in STRATEGIES.values() for name in one.options.model_fields}
