"""Keras on JAX trains and evaluates on all workers, and refuses what only TensorFlow computes."""

from importlib.util import find_spec

import jax_job
import pytest
from jax_job import Case

from local_job import failure, results
from nodewise.core.errors import RefusedError
from nodewise.strategies import STRATEGIES, declaration


@pytest.fixture(scope="module")
def trained(tmp_path_factory, run_job):
    out = tmp_path_factory.mktemp("jax")
    cases = {"own": Case("own", 3), "unequal": Case("unequal", 2)} | {
        kind: Case(kind) for kind in ("layer", "random", "text", "train_step")
    }
    run_job(jax_job.main, out, cases, backend="jax")
    return out


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("layer", "the model calls TensorFlow, whose operations do not run on JAX"),
        ("random", "the model calls TensorFlow, whose operations do not run on JAX"),
        ("text", "JAX cannot train on strings"),
        ("train_step", "train_step(self, state, data)"),
        ("unequal", "9 examples have no 2 equal parts"),
    ],
)
def test_what_jax_cannot_train_is_refused(trained, kind, told):
    assert told in failure(trained / kind)["error"]


def test_a_step_of_one_s_own_trains_and_each_worker_evaluates_its_own_examples(trained):
    done = results(trained / "own")
    assert [one["logs"]["own"] for one in done] == [7, 7, 7]
    assert done[0]["weights"] == done[1]["weights"] == done[2]["weights"]
    assert [one["tested"] for one in done] == pytest.approx([one["mae"] for one in done], rel=1e-5)
    assert {one["device"] for one in done} == {"CPU, 1 thread"}


def test_without_jax_one_line_says_how_to_get_it(monkeypatch):
    STRATEGIES["keras_jax"].check_available()
    found = lambda name: None if name == "jax" else find_spec(name)  # noqa: E731
    monkeypatch.setattr(declaration, "find_spec", found)
    with pytest.raises(RefusedError, match=r"jax is not installed\. To allow it, run: make jax"):
        STRATEGIES["keras_jax"].check_available()
