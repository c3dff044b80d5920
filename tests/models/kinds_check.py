"""What models of any kind must come to with any strategy: the results of one process, or a refusal.

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

import kinds_job
import numpy as np
from kinds_job import Averaged, Case, Fit

import local_job
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
    "look for an overflow in each replica's gradient": {"half"},
    "in a tf.function or a branch of its own": {"accumulating", "decorated"},
    "returns one number for a batch": {"own_mean"},
}
SCALED = {"scales the loss": {"ema_scaled", "half"}}
SEVERAL = {"several gradients in a step": {"gan", "inner_models"}}
UNSEEN = {"changes weights other than by its optimizer": {"unseen"}}
REFUSED = {
    "custom_loop": AVERAGES | UNSEEN,
    "mpi": AVERAGES | UNSEEN,
    "horovod": AVERAGES | UNSEEN,
    "compressed_sgd": AVERAGES | UNSEEN | SCALED | SEVERAL,
    "parameter_averaging": AVERAGES,
    "parameter_server": {
        "train_step of your own": {"accumulating", "decorated", "drawn", "gan", "inner_models"}
        | {"nested_logs", "own_train_step", "unseen", "x_alone"},
        "compute_loss of your own": {"own_loss"},
        "one input, one output, one loss": {"frozen", "hub", "mean_of_weights", "ragged"}
        | {"sample_weights", "siamese", "two_inputs"},
        "losses that layers add": {"regression"},
        "must be one of keras.losses": {"own_mean", "own_sum", "summed", "unregistered"},
        "is not allowed": {"augmented", "own_variable", "regularized", "spectral", "stateful"}
        | {"synchronized", "text", "unseeded"},
        "needs whole layers": {"ema_scaled", "half", "two_optimizers"},
        "use_ema needs the weights": {"averaged", "ema"},
        "class weights and callbacks": {"callbacks", "class_weight"},
    },
    "async_sgd": SCALED
    | {
        "several optimizers": {"gan", "inner_models", "two_optimizers"},
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
        "trains a layer that call() does not build": {"x_alone"},
        "on ragged": {"ragged"},
    },
    "multi_worker_mirrored": CLIPS | UNSEEN | {"weights in bfloat16": {"bfloat16_weights"}},
}


WITHIN_S = 1500  # for a case
PASSED = ("equal", "agree")
SINGLE = Case("single", 1, split=True)


def case_of(strategy, nodes, *, split=False):
    same = strategy in SERVED and nodes > 1
    return Case(strategy, nodes, OPTIONS.get(strategy, ()), same_examples=same, split=split)


class Results:
    """Trains kinds when their results are first needed; `Results(…)(case, kinds)` returns them.

    Args:
        temporary: the fixture `tmp_path_factory`.
        run_job: the fixture.
    """

    def __init__(self, temporary, run_job):
        self._temporary, self._run_job = temporary, run_job
        self._folders = {}  # by case and kind

    def __call__(self, case, kinds):
        """Return by kind the arrays that each worker saved, or the reason why there are none."""
        missing = [kind for kind in kinds if (case, kind) not in self._folders]
        if missing:
            local_job.build_library(getattr(case, "strategy", ""))
            folder = self._temporary.mktemp("kinds")
            self._run_job(kinds_job.main, folder, missing, case, timeout_s=WITHIN_S)
            self._folders |= {(case, kind): folder for kind in missing}
        return {kind: workers(self._folders[case, kind], kind) for kind in kinds}


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


def verdicts(results, case, kinds):
    """Return by kind `equal`, `agree` if workers only have to agree, a refusal or a difference."""
    found = results(case, kinds)
    told = {kind: one for kind, one in found.items() if isinstance(one, str)}
    by_reference = {}
    for kind in found.keys() - told:
        by_reference.setdefault(reference(case, kind), []).append(kind)
    for expected, those in by_reference.items():
        if expected is None:
            told |= {kind: agreement(found[kind], kind) for kind in those}
            continue
        # The loss may be undivided as well.
        with_loss = not (isinstance(expected, Fit) and expected.factor > 1)
        for kind, wanted in results(expected, those).items():
            assert not isinstance(wanted, str), f"{expected}: {wanted}"
            told[kind] = differences(found[kind], wanted, kind, with_loss=with_loss) or "equal"
    return told


def agreement(found, kind):
    """Return `agree` if workers have the same weights, from random numbers of their own."""
    alike = len(found) > 1 and found[0]["loss"] == found[1]["loss"]
    if KINDS[kind].per_worker == OUT_OF_REACH and alike:
        return "workers drew the same random numbers"
    return differences(found, found[:1], kind, with_loss=False) or "agree"


def refusal(case, kind):
    """Return the text with which a case must be refused; empty if it must train."""
    if (case.strategy, case.nodes, kind) == ("async_sgd", 1, "synchronized"):
        return ""
    told = [text for text, kinds in REFUSED.get(case.strategy, {}).items() if kind in kinds]
    return told[0] if told else ""


def assert_right(told, case):
    """Assert that each kind of `verdicts` trained, or was refused as it must be."""
    wrong = {}
    for kind, text in told.items():
        expected = refusal(case, kind)
        refused = text.startswith("refused: ") and expected in text
        # Keras' text around an error in a layer must not be there
        right = refused and "Exception encountered" not in text if expected else text in PASSED
        if not right:
            wrong[kind] = text
    assert not wrong
