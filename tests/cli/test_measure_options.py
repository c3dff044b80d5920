"""`nodewise measure` turns options into a cell; options that do not fit get a clear message."""

import shlex
from pathlib import Path

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st

import make_records as make
import projects
from mistakes import user_error
from nodewise.cli import measure as commands
from nodewise.core.user_function import own_dataset_name
from nodewise.study.single import SingleRun, cell_of, command_of

MODEL, DATA = "models/templates/own_model.py:build", "data/templates/own_data.py:load"


def options(**changes) -> SingleRun:
    given_ = {"strategy": "single", "model": "fashion_cnn", "nodes": 1, "batch": 32}
    return SingleRun(**(given_ | changes))


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({}, ("fashion_mnist", None, None, None, 40)),
        ({"epochs": 2}, ("fashion_mnist", None, None, None, None)),
        ({"model": MODEL, "dataset": DATA}, (own_dataset_name(DATA), MODEL, DATA, None, 40)),
        ({"model": MODEL, "dataset": "mnist"}, ("mnist", MODEL, None, None, 40)),
        (
            {"strategy": "async_sgd", "nodes": 3, "option": ("bound=2",)},
            ("fashion_mnist", None, None, "async_sgd_bound_2_", 40),
        ),
    ],
)
def test_options_become_the_fields_of_a_cell(changes, fields):
    dataset, build, load, variant, steps = fields
    cell = cell_of(options(**changes))
    assert (cell.dataset, cell.build, cell.load) == (dataset, build, load)
    assert (cell.variant or "").startswith(variant or "") and bool(cell.variant) == bool(variant)
    assert (cell.extent.steps, cell.extent.epochs) == (steps, changes.get("epochs"))
    assert cell.id.startswith("single_run")


def test_two_commands_at_once_measure_two_repeats_and_that_of_a_killed_one_is_free(
    tmp_path, monkeypatch
):
    cell = cell_of(options())
    monkeypatch.chdir(tmp_path)
    with commands.claimed_repeat(cell) as first, commands.claimed_repeat(cell) as second:
        assert (first.repeat, second.repeat) == (0, 1)
        make.write([make.record(first)], commands.SINGLE_RUN / "records")
    # The second left its logs and no record, as a killed command does.
    with commands.claimed_repeat(cell) as again:
        assert again.repeat == 1


WARM_UP = ("method=top_k", "share=0.001", "values=float32", "warmup_nodes=2")
COMPRESSED = {"strategy": "compressed_sgd", "nodes": 2}
OWN = [  # two functions of the same file, and a file of the same name in another folder
    "workflow/nodewise/predict/forecast.py:read_training",
    "workflow/nodewise/predict/forecast.py:devices_of",
    "workflow/nodewise/cli/forecast.py:forecast_nodes",
]
EMULATED = "{{kind: emulated, node: {{cpu: {}}}, link: {{rate_mbit: {}}}}}"
CLUSTERS = [EMULATED.format(cpu, rate) for cpu in (0.2, 0.3) for rate in (2.5, 25.0, 100.0)]
DATASETS = ["mnist", "fashion_mnist", DATA]
ASKED = st.one_of(
    st.builds(
        lambda steps: COMPRESSED | {"option": (*WARM_UP, f"warmup_steps={steps}")},
        st.integers(1, 30),
    ),
    st.fixed_dictionaries({"model": st.sampled_from(OWN), "dataset": st.sampled_from(DATASETS)}),
    st.fixed_dictionaries({"steps": st.none() | st.integers(39, 42)}),
    st.fixed_dictionaries({"epochs": st.integers(1, 3)}),
    st.fixed_dictionaries({"input": st.sampled_from([None, "sharded", "unsharded"])}),
    st.fixed_dictionaries({"cluster": st.sampled_from(CLUSTERS)}),
)


@given(one=ASKED, other=ASKED)
def test_cells_that_are_declared_otherwise_have_another_id(one, other):
    first, second = cell_of(options(**one)), cell_of(options(**other))
    assert (first.id == second.id) == (first.declaration == second.declaration)
    assert f"/{first.model}/" in first.id


def test_an_absolute_path_is_recorded_relative_to_the_project():
    asked = options(model=str(Path(MODEL).absolute()), dataset=str(Path(DATA).absolute()))
    cell = cell_of(asked)
    assert (cell.build, cell.load) == (MODEL, DATA)
    assert f"--model {MODEL} --nodes 1 --batch 32 --dataset {DATA}" in command_of(asked, cell)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"strategy": "rings"}, "strategy rings: unknown; allowed: "),
        ({"nodes": 2}, "--strategy single: nodes: allowed for this strategy: 1, not 2"),
        ({"strategy": "model_parallel", "nodes": 7}, "nodes: at most 6 for fashion_cnn"),
        ({"strategy": "model_parallel", "option": ("micro_batches=33",)}, "batches: at most 32"),
        ({"strategy": "parameter_averaging", "steps": 9}, "options.period: at most 9, the timed"),
        ({"option": ("pace=1",)}, "--strategy single: options.pace: "),
        ({"option": ("pace",)}, "--option pace: give each option once, as name=value"),
        ({"option": ("a=1", "a=2")}, "--option a=2: give each option once"),
        ({"option": ("a=[",)}, "--option a: '[' cannot be read as YAML"),
        ({"steps": 5, "epochs": 1}, "--steps and --epochs: give one of them"),
        ({"steps": 1}, "--steps: 1 is not allowed, must be at least 2"),
        ({"batch": 0}, "--batch: 0 is not allowed, must be at least 1"),
        ({"strategy": "mpi", "nodes": 2, "input": "own"}, "--input: own needs a dataset of your"),
        ({"strategy": "model_parallel", "nodes": 2, "input": "own"}, "input: must be sharded"),
        ({"cluster": "{kind: emulated, node: {cpus: 1}}"}, "node.cpus: unknown key"),
        ({"cluster": "{"}, "--cluster: '{' cannot be read as YAML"),
        ({"cluster": "{kind: emulated, node: {cpu: 0.0}}"}, "--cluster.node.cpu: 0.0 is not"),
        ({"model": "no_such"}, "model no_such: unknown; allowed: "),
        ({"model": MODEL, "dataset": "no.py"}, "'no.py': must be path/to/file.py:function"),
        ({"dataset": "mnist"}, "fashion_cnn trains on fashion_mnist"),
        ({"model": MODEL}, "--dataset: a model of your own needs one"),
        ({"model": "missing.py:build", "dataset": DATA}, "there is no file missing.py"),
        ({"model": MODEL, "dataset": "Fashion MNIST"}, "dataset"),
    ],
)
def test_options_that_do_not_fit_are_told_in_one_line(changes, said):
    assert said in user_error(cell_of, options(**changes))


def test_data_is_fetched_with_the_user_s_proxy_and_a_failure_goes_to_standard_error(
    monkeypatch, capsys
):
    record = make.failed(cell_of(options()), "rank 1: killed by SIGKILL")
    steps = []
    monkeypatch.setattr(commands, "prepare_data", lambda cell: steps.append("prepare"))

    def measure(*given, **named):
        steps.append("measure")
        return record

    monkeypatch.setattr("nodewise.measure.cell.measure", measure)
    with pytest.raises(typer.Exit) as ended:
        commands.measure(
            strategy="single", model="fashion_cnn", nodes=1, batch=32, out=Path("record.json")
        )
    assert steps == ["prepare", "measure"]  # Measuring removes proxies, which workers may not use.
    assert ended.value.exit_code == 1
    printed = capsys.readouterr()
    assert "killed by SIGKILL" in printed.err and "killed" not in printed.out


NUMBERS = st.integers(1, 64)


@given(nodes=NUMBERS, batch=NUMBERS, steps=st.none() | st.integers(2, 99), rate=st.integers(1, 99))
def test_the_command_in_a_record_repeats_the_measurement(nodes, batch, steps, rate):
    asked = options(
        strategy="multi_worker_mirrored",
        nodes=nodes,
        batch=batch,
        steps=steps,
        cluster=EMULATED.format(0.2, rate),
    )
    program, command, *words = shlex.split(command_of(asked, cell_of(asked)))
    assert (program, command) == ("nodewise", "measure")
    told = dict(zip((word.removeprefix("--") for word in words[::2]), words[1::2], strict=True))
    kinds = {"nodes": int, "batch": int, "steps": int}
    again = SingleRun(**{name: kinds.get(name, str)(value) for name, value in told.items()})
    assert cell_of(again) == cell_of(asked)


def test_numpy_and_its_threads_come_after_the_environment_is_settled():
    """A process with several threads can neither enter a node's namespace nor fork workers."""
    code = "import nodewise.measure.cell, sys; sys.exit('numpy' in sys.modules)"
    projects.python("-c", code)
