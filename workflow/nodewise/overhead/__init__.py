"""What distribution costs: laws of the step time, their fits, their optima, and how wrong they are.

Nothing here needs TensorFlow. The workflow calls `study.fit_study` and `study.judge_study`. In a
notebook:

    >>> from nodewise.overhead import At, Points, RingAllReduce, fit
    >>> points = Points.of(nodes=[1, 2, 4], batch=64, payload=5e6, step_s=[0.020, 0.118, 0.159])
    >>> fitted = fit(RingAllReduce(), points)
    >>> fitted.evaluate(At.of(nodes=[8, 16], batch=64, payload=5e6)).round(2).tolist()
    [0.19, 0.2]
"""

from nodewise.overhead.answers import in_words
from nodewise.overhead.baselines import (
    BASELINES,
    LAWS,
    Amdahl,
    Ernest,
    Linear,
    Pollux,
    PowerLaw,
    Usl,
)
from nodewise.overhead.fit import Fit, Points, fit
from nodewise.overhead.formulas import (
    At,
    BinomialTree,
    CompressedAllGather,
    GPipe,
    HalvingDoubling,
    Law,
    NoExchange,
    Parameter,
    ParameterAveraging,
    PartsLaw,
    RingAllReduce,
    Star,
    expected_maximum,
)
from nodewise.overhead.optima import (
    best_at_global_batch,
    best_at_worker_batch,
    best_micro_batches,
    best_to_accuracy,
    break_even,
    dense_sends_less_from,
)
from nodewise.overhead.optimum import Optimum, Question, find_optimum
from nodewise.overhead.servers import ParameterServer, ParameterServerBound
from nodewise.overhead.steps_to_accuracy import StepsToAccuracy, fit_steps, steps_by_noise

__all__ = [
    "BASELINES",
    "LAWS",
    "Amdahl",
    "At",
    "BinomialTree",
    "CompressedAllGather",
    "Ernest",
    "Fit",
    "GPipe",
    "HalvingDoubling",
    "Law",
    "Linear",
    "NoExchange",
    "Optimum",
    "Parameter",
    "ParameterAveraging",
    "ParameterServer",
    "ParameterServerBound",
    "PartsLaw",
    "Points",
    "Pollux",
    "PowerLaw",
    "Question",
    "RingAllReduce",
    "Star",
    "StepsToAccuracy",
    "Usl",
    "best_at_global_batch",
    "best_at_worker_batch",
    "best_micro_batches",
    "best_to_accuracy",
    "break_even",
    "dense_sends_less_from",
    "expected_maximum",
    "find_optimum",
    "fit",
    "fit_steps",
    "in_words",
    "steps_by_noise",
]
