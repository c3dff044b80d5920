"""With any strategy, models of any kind train as in one process, or are refused in one line.

`make test-all` tests one process, and one strategy of each family on two workers.
`make test-matrix` tests all strategies on two and three workers and prints a table of them.

The following holds for weights and losses after all steps:

- Strategies that exchange gradients, and those of tf.distribute, equal `fit` on the global batch.
  If a worker's gradient depends on which examples it has (`per_worker`), they equal
  MultiWorkerMirroredStrategy.
- Weights averaged after every step equal the average of models that Keras trains, each on its part.
- One worker with parameter servers equals `fit`. Several workers that have the same examples and
  wait for each other apply every gradient once: they equal a `fit` that applies each gradient
  once per worker. Workers of ParameterServerStrategy do not wait: they only have to end with the
  same weights, those of the servers.
"""

import json
import time

import kinds_job
import measured_job
import numpy as np
import pytest
from kinds_job import Averaged, Case, Fit

import make_horovod
from kinds import KINDS

NATIVE = ("mirrored", "multi_worker_mirrored")
SERVED = ("parameter_server", "async_sgd")
# Each thread has its own generator for layers without a seed; models in one thread share it.
APART = ("mirrored", "parameter_averaging")
OUT_OF_REACH = "random numbers of TensorFlow"  # Nothing resets the states of its generators.
# They send one flat array, so that an embedding's gradient is dense. An optimizer with memory then
# also updates rows that are not in the batch, which Keras leaves unchanged.
DENSE = ("compressed_sgd", "async_sgd")
OPTIONS = {
    "compressed_sgd": (("method", "top_k"), ("share", 1.0), ("values", "float32")),
    "parameter_averaging": (("period", 1),),
    "async_sgd": (("bound", 0),),
}

# strategy -> text of the refusal -> kinds
AVERAGES = {
    "the loss has the reduction sum": {"summed"},
    "is not the mean of its values for the parts": {"own_sum"},
    "is synchronized, which only mirrored": {"synchronized"},
}
CLIPS = {
    "gradient_accumulation_steps do not go together": {"averaged"},
    "ema_overwrite_frequency do not go together": {"ema_scaled"},
    "clip each replica's gradient": {"regression", "two_optimizers"},
    "look for an overflow in each replica's gradient": {"half", "loss_scaling"},
    "in a tf.function or a branch of its own": {"accumulating", "decorated"},
    "returns one number for a batch": {"own_mean"},
}
UNSEEN = {"changes weights other than by its optimizer": {"unseen"}}
REFUSED = {
    "custom_loop": AVERAGES | UNSEEN,
    "mpi": AVERAGES | UNSEEN,
    "horovod": AVERAGES | UNSEEN,
    "compressed_sgd": AVERAGES | UNSEEN | {"several gradients in a step": {"gan", "inner_models"}},
    "parameter_averaging": AVERAGES,
    "parameter_server": {
        "a train_step of its own": {
            *("accumulating", "decorated", "drawn", "gan", "inner_models", "nested_logs"),
            *("own_train_step", "unseen", "x_alone"),
        },
        "a compute_loss of its own": {"own_loss"},
        "one output and one loss": {"frozen", "two_inputs"},
        "adds losses of its own": {"regression", "regularized", "variational"},
        "takes one input and one label tensor": {"hub", "sample_weights", "siamese"},
        "the loss has the reduction": {"summed", "mean_of_weights"},
        "scales the loss": {"ema_scaled", "half", "loss_scaling"},
        "averages weights": {"averaged", "ema"},
        "is synchronized": {"synchronized"},
        "is stateful": {"stateful"},
        "needs a Sequential or functional model": {"ragged"},
        "has a lookup table": {"adapted", "text"},
        "itself, which the servers do not get": {"spectral"},
        "comes with class weights": {"class_weight"},
        "random numbers without a seed": {"unseeded"},
        "comes with callbacks": {"callbacks"},
    },
    "async_sgd": {
        "several optimizers": {"gan", "inner_models", "two_optimizers"},
        "scales the loss": {"ema_scaled", "half", "loss_scaling"},
        "averages weights": {"averaged", "ema"},
        "is synchronized, which only mirrored": {"synchronized"},
        "changes weights other than by its optimizer": {"spectral"},
        "applies no gradient by its optimizer": {"unseen"},
        "comes with callbacks, which do not reach": {"callbacks"},
    },
    "mirrored": CLIPS
    | UNSEEN
    | {
        "builds a model by its call()": {"gan"},
        "is stateful": {"stateful"},
        "on ragged": {"ragged"},
    },
    "multi_worker_mirrored": CLIPS | UNSEEN | {"weights in bfloat16": {"bfloat16_weights"}},
}


def case_of(strategy, nodes):
    same = strategy in SERVED and nodes > 1
    return Case(strategy, nodes, OPTIONS.get(strategy, ()), same_examples=same, split=nodes < 3)


QUICK = [
    case_of(name, 2)
    for name in ("custom_loop", "parameter_averaging", "async_sgd", "multi_worker_mirrored")
]
MATRIX = [
    case_of(strategy, nodes)
    for strategy in (
        *("custom_loop", "mpi", "horovod", "compressed_sgd", "parameter_averaging"),
        *(*SERVED, *NATIVE),
    )
    for nodes in ((1, 2, 3) if strategy in SERVED else (2, 3))
]
WITHIN_S = 1500

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2 * WITHIN_S)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_job):
    """Return a function that returns the folder with what a case trained of each kind."""
    done = {}

    def of(case):
        if case not in done:
            if getattr(case, "strategy", "") == "horovod":
                make_horovod.make_horovod()
            done[case] = tmp_path_factory.mktemp("kinds")
            run_job(kinds_job.main, done[case], kinds_of(case), case, timeout_s=WITHIN_S)
        return done[case]

    return of


def kinds_of(case):
    """Return the kinds that a case trains; some references are needed for a few kinds only."""
    few = isinstance(case, Fit) and case.factor > 1
    return [name for name, kind in KINDS.items() if kind.own_step or not few]


def reference(case, kind):
    """Return the case whose result must be equal; None if only the workers must agree."""
    nodes, dense = case.nodes, case.strategy in DENSE
    per_worker = KINDS[kind].per_worker
    served = case.strategy in SERVED and nodes > 1
    alone = case.strategy == "parameter_server" or per_worker == "random numbers"
    unseeded = KINDS[kind].unseeded and case.strategy in APART
    if per_worker == OUT_OF_REACH or unseeded or (served and alone):
        return None
    if case.strategy == "parameter_averaging":
        # Models with callbacks use SGD, for which averaging weights equals averaging gradients.
        return Fit() if KINDS[kind].epochs > 1 else Averaged(nodes)
    if served:
        return Fit(dense=dense, times=nodes, first_of=nodes)
    if case.strategy in NATIVE and KINDS[kind].own_step:
        return Fit(factor=nodes)
    if per_worker and nodes > 1:
        return case_of("multi_worker_mirrored", nodes)
    return Fit(dense=dense)


def workers(folder, kind):
    """Return the arrays that each worker has saved, or the reason why there are none."""
    failed = folder / f"{kind}.txt"
    if failed.exists():
        return failed.read_text()
    found = []
    for path in sorted(folder.glob(f"{kind}~*.npz")):
        with np.load(path) as arrays:
            found.append({name: arrays[name] for name in arrays.files})
    return found


def differences(found, expected, kind, *, with_loss=True):
    """Return how workers differ from the expected arrays; empty if they do not."""
    limit = KINDS[kind].tolerance
    largest = max(np.abs(array).max() for name, array in expected[0].items() if name != "loss")
    differ = []
    for worker in found:
        assert set(worker) == set(expected[0])
        for name in set(worker) - {"loss"}:
            off = np.abs(worker[name] - expected[0][name]).max() / largest
            if not off <= limit:
                differ.append(f"weight {name} by {off:.1e}")
    losses = [np.mean([worker["loss"] for worker in some]) for some in (found, expected)]
    if with_loss and not abs(losses[0] - losses[1]) <= limit * max(1.0, abs(losses[1])):
        differ.append(f"loss {losses[0]:g}, not {losses[1]:g}")
    return ", ".join(differ)


def verdict(trained, case, kind):
    """Return `equal`, `agree` if workers only have to agree, or a case's refusal or difference."""
    found = workers(trained(case), kind)
    if isinstance(found, str):
        return found
    expected = reference(case, kind)
    if expected is None:
        return differences(found, found[:1], kind, with_loss=False) or "agree"
    wanted = workers(trained(expected), kind)
    assert not isinstance(wanted, str), f"{expected}: {wanted}"
    # The loss may be undivided as well.
    undivided = isinstance(expected, Fit) and expected.factor > 1
    return differences(found, wanted, kind, with_loss=not undivided) or "equal"


def refusal(case, kind):
    """Return the text with which a case must be refused; empty if it must train."""
    if case == case_of("async_sgd", 1) and kind == "synchronized":
        return ""
    told = [text for text, kinds in REFUSED.get(case.strategy, {}).items() if kind in kinds]
    return told[0] if told else ""


def assert_right(trained, case, kind):
    found = verdict(trained, case, kind)
    if expected := refusal(case, kind):
        assert found.startswith("refused: ")
        assert expected in found
        assert "Exception encountered" not in found  # Keras' text around an error in a layer
    else:
        assert found in {"equal", "agree"}


@pytest.mark.parametrize("kind", KINDS)
def test_one_process_is_fit(trained, kind):
    assert_right(trained, Case("single", 1, split=True), kind)


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.strategy)
@pytest.mark.parametrize("kind", KINDS)
def test_two_workers_are_one_process(trained, kind, case):
    assert_right(trained, case, kind)


@pytest.mark.parametrize("case", QUICK, ids=lambda case: case.strategy)
def test_workers_draw_other_random_numbers(trained, case):
    first, second = (worker["loss"] for worker in workers(trained(case), "drawn"))
    assert first != second


# `fit` cannot test these, either: no loss is compiled, or the model has no call().
UNTESTED = {
    *("accumulating", "decorated", "gan", "inner_models", "nested_logs", "stateful", "unseen"),
    "x_alone",
}


@pytest.mark.parametrize(
    "kinds",
    [
        ["decorated", "gan", "nested_logs", "ragged", "stateful", "text", "two_inputs", "x_alone"],
        pytest.param(list(KINDS), marks=pytest.mark.matrix),
    ],
    ids=["some", "all"],
)
def test_a_kind_is_measured_from_a_user_s_file_to_a_record(tmp_path, run_job, kinds):
    told = {kind: kind not in UNTESTED for kind in kinds}
    printed = run_job(
        measured_job.main, tmp_path, told, "custom_loop", 2, timeout_s=60 + 20 * len(kinds)
    )
    for kind, (status, reason, tested) in json.loads(printed).items():
        if expected := refusal(Case("custom_loop", 2), kind):
            assert status == "refused", (kind, reason)
            assert expected in reason
        else:
            assert (status, tested) == ("ok", told[kind]), (kind, reason)


@pytest.mark.matrix
@pytest.mark.parametrize("case", MATRIX, ids=lambda case: f"{case.strategy}-{case.nodes}")
def test_every_strategy_is_one_process(trained, case, capsys):
    """Print a row for each kind, so that the table of a strategy is one column."""
    began = time.monotonic()
    trained(case)
    took_s = time.monotonic() - began
    found = {kind: verdict(trained, case, kind) for kind in KINDS}
    with capsys.disabled():
        print(f"\n{case.strategy} on {case.nodes}, trained in {took_s:.0f} s:")
        for kind, text in found.items():
            print(f"  {kind:20} {text.splitlines()[-1]}")
    for kind in KINDS:
        assert_right(trained, case, kind)
