"""How fitted curves are named for readers, and how their points compare with plain training."""

from types import SimpleNamespace

import pandas as pd

from nodewise.predict.fit_queries import CURVE
from nodewise.report.fitted_curves import Curves, _alone
from nodewise.results.curve_points import curve_keys

POINT = {
    "study": "survey",
    "experiment": "ways",
    "model": "fashion_mlp",
    "dataset": "fashion_mnist",
    "strategy": "async_sgd",
    "cluster": "0.2 core, 100 Mbit/s",
    "batch_per_worker": 64,
    "nodes": 2,
    "kind": "emulated",
    "data_origin": "mirror",
    "whole_epochs": False,
    "repeats": 3,
    "flags": "",
    "speedup": 0.5,
    "weights": "",
}


def curves_of(points, *, experiments=(), law="server", published=()):
    rows = pd.DataFrame([POINT | point for point in points])
    told = rows.assign(source=rows["kind"], curve=curve_keys(rows))
    told = told[told["strategy"] != "single"][CURVE].drop_duplicates()
    told = pd.concat([told, pd.DataFrame(published, columns=CURVE)]).assign(
        law=law, data_origin="mirror"
    )
    study = SimpleNamespace(
        overhead={"predictions": told},
        tables={
            "curves": rows,
            **dict.fromkeys(
                ("published", "published_runs"),
                pd.DataFrame(columns=["study", "model", "batch_per_worker"]),
            ),
        },
        strategy_title=lambda name: {"async_sgd": "Asynchronous SGD"}.get(name, name),
        experiment_title=lambda name: dict(experiments).get(name, name),
        model_title=lambda model: {"fashion_mlp": "Fashion MLP"}.get(model, model),
    )
    return Curves(study)


def labels(points, **more):
    return list(curves_of(points, **more).labels.values())


def test_points_are_compared_with_one_process_at_the_same_batch():
    curves = curves_of(
        [
            {"strategy": "single", "nodes": 1, "speedup": 1.0},
            {"nodes": 1, "speedup": 0.4},
            {},
            {"nodes": 4, "speedup": 1.5},
            {"nodes": 5, "speedup": 7.0, "repeats": 2},
            {"nodes": 8, "speedup": 3.0, "flags": "more workers than cores"},
            {"batch_per_worker": 128, "speedup": 9.0},
        ]
    )
    (key,) = curves.labels
    assert curves.against_plain(key).tolist() == [0.5, 1.5]
    told = _alone(curves, key, curves.study.overhead["predictions"].iloc[0])
    assert told is not None and (told["faster"], told["points"], len(told["ends"])) == (1, 2, 2)


def test_without_one_process_nothing_is_compared_and_a_ring_needs_no_comparison():
    curves = curves_of([{"nodes": 1}, {}])
    (key,) = curves.labels
    first = curves.study.overhead["predictions"].iloc[0]
    told = _alone(curves, key, first)
    assert told is not None and (told["ends"], told["points"]) == ([], 0)
    assert _alone(curves, key, first.replace({"server": "ring"})) is None
