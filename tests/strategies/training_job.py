"""Train small models with strategies and save what each worker observed.

All workers of a case train on the same global batches, or on their unequal parts of them, and then
agree. Worker RANK saves in OUT/CASE:

    arrays~RANK.npz    after each step: the weights, the optimizer's momentum, the bytes sent so
                       far; in the end: the agreed weights, the model with its moving statistics,
                       the residual of compressed_sgd; the weights and times of the split form

It returns the loss of each step, the strategy's observations, the bytes on the wire; from before
the workers agree, a digest of the weights, the moving statistics and the seeds of dropout; and how
many threads MORE_STEPS steps leave behind.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import local_job
from nodewise.cluster.channel import Channel
from nodewise.strategies import STRATEGIES

STEPS, EXAMPLES, STEPS_PER_EPOCH = 10, 25, 5
MORE_STEPS = 40
NAP_S = 0.004  # per example, in the model `slow`


class Case(NamedTuple):
    """What a job trains: a model of small_models.py with the optimizer `sgd` or `momentum`.

    `split` also trains the split form. `leaves` and `fails` are ranks of workers that do so in the
    middle.
    """

    strategy: str
    nodes: int
    model: str
    options: dict[str, Any] = {}  # noqa: RUF012
    optimizer: str = "momentum"
    split: bool = False
    leaves: int | None = None
    fails: int | None = None


def linear_inputs() -> np.ndarray:
    """Return the inputs of the model `linear`, (steps, examples, inputs)."""
    return np.random.default_rng(7).normal(1, 1, (STEPS, EXAMPLES, 400))


def rows(rank: int, nodes: int) -> np.ndarray:
    """Return which examples of a step a worker trains on."""
    return np.array_split(np.arange(EXAMPLES), nodes)[rank]


def train(
    rank: int, addresses: tuple[str, ...], _: Channel, *, case: Case, out: Path
) -> dict[str, Any]:
    import small_models
    import tensorflow as tf

    from nodewise.measure.traffic import traffic
    from nodewise.strategies import api

    x, y = small_models.data(case.model)
    build = partial(small_models.compiled, case.model, case.optimizer)
    trained = local_job.make_strategy(
        case, rank, addresses, build, x.shape[1], steps_per_epoch=STEPS_PER_EPOCH
    )
    whole = STRATEGIES[case.strategy].whole_batches
    own = np.array_split(np.arange(x.shape[1]), 1 if whole else case.nodes)[0 if whole else rank]
    batches = [(tf.constant(a[own]), tf.constant(b[own])) for a, b in zip(x, y, strict=True)]
    initial = trained.state()
    trained.step(batches[0])  # This traces the step.
    trained.restore(initial)
    trained.barrier()
    trained.observations()
    wire = traffic()
    trained.barrier()  # Nobody sends before all workers have read their counters.
    losses, arrays = [], {"weights": [flat(trained.weights())], "memory": [], "sent": [wire.sent]}
    for step, batch in enumerate(batches):
        if step == len(batches) // 2:
            if rank == case.leaves:
                os._exit(7)
            if rank == case.fails:
                raise ArithmeticError("of itself")
        trained.model.reset_metrics()
        losses.append(api.plain(trained.step(batch)).get("loss"))
        trained.barrier()  # A worker's last bytes may leave shortly after its own step has ended.
        arrays["sent"].append(traffic().sent)
        arrays["weights"].append(flat(trained.weights()))
        momentums = getattr(trained.model.optimizer, "momentums", None) or []
        arrays["memory"].append(flat([one.numpy() for one in momentums]))
    received = traffic().received - wire.received
    trained.barrier()
    statistics = api.moving_statistics(trained.model)
    seen = {
        "losses": losses,
        "observed": trained.observations(),
        "sent": arrays["sent"][-1] - wire.sent,
        "received": received,
        "weights": trained.weights_sha256(),
        "statistics": [v.numpy().tolist() for v in statistics],
        "seeds": [v.numpy()[0].item() for v in api.seeds(trained.model)],
        "replicas_agree": trained.replicas_agree,
    }
    if case.strategy == "compressed_sgd":
        arrays["residual"] = flat(trained.state()[-2:-1])
    trained.agree()
    arrays["agreed"] = flat(trained.weights())
    model = [*trained.weights(), *(v.numpy() for v in statistics)]
    if case.split:
        trained.restore(initial)
        arrays["times"] = [trained.split_step(batch) for batch in batches]
        arrays["split"] = flat(local_job.split_weights(trained))
    elif case.model == "normalised" and not whole:
        threads = len([*Path("/proc/self/task").iterdir()])
        for _ in range(MORE_STEPS):
            trained.step(batches[0])
        seen["more_threads"] = len([*Path("/proc/self/task").iterdir()]) - threads
    named = {f"model {number}": array for number, array in enumerate(model)}
    np.savez(out / f"arrays~{rank}.npz", **arrays, **named)
    return seen


def flat(arrays: Any) -> np.ndarray:
    return np.concatenate([np.zeros(0), *(np.ravel(one) for one in arrays)])


class Done(NamedTuple):
    """What the workers of a case saved, by rank."""

    arrays: list[dict[str, np.ndarray]]
    seen: list[dict[str, Any]]

    def models(self) -> list[list[np.ndarray]]:
        """Return the agreed weights and the moving statistics of each worker."""
        return [[one[name] for name in one if name.startswith("model")] for one in self.arrays]

    def all(self, name: str) -> np.ndarray:
        """Return an array of all workers, (workers, …)."""
        return np.stack([one[name] for one in self.arrays])

    def losses(self) -> np.ndarray:
        """Return the loss of each step on all examples; only last stages know theirs."""
        known = [one["losses"] for one in self.seen if None not in one["losses"]]
        examples = [len(rows(rank, len(known))) for rank in range(len(known))]
        return np.average(known, axis=0, weights=examples)


def read(folder: Path) -> Done:
    """Return what a case saved."""
    seen = local_job.results(folder)
    return Done([dict(np.load(path)) for path in sorted(folder.glob("arrays~*.npz"))], seen)


def train_all(run_job: Any, out: Path, cases: dict[str, Case]) -> dict[str, Done]:
    """Train each of `cases`, and return what it saved."""
    run_job(local_job.train_cases, out, cases, train)
    return {name: read(out / name) for name in cases}
