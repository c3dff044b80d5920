"""Predict published curves with settings that are chosen separately in each fold.

The settings for a publisher are those that predict the other publishers best, where each of them is
predicted without its own hidden points and without anything of this publisher. Takes half a minute.
"""

from itertools import product

import numpy as np
import pandas as pd
from corpus import predict_all

from nodewise.core.progress import progress
from nodewise.predict.published_accuracy import levels
from nodewise.predict.published_curves import Scaling, read_published
from nodewise.predict.similar_curves import (
    OWN,
    USED,
    Settings,
    Target,
    examples_of,
    guess,
    table_of,
)
from nodewise.results.curves import Floats

TRIED = [Settings(*each) for each in product((0.7, 0.85, 1), (0.7, 1, 1.4))]


class Trial:
    """Predictions of all hidden points with one set of settings."""

    def __init__(self, curves: tuple[Scaling, ...], settings: Settings) -> None:
        rows, seen = [], []
        for curve in curves:
            for part, of in ((_seen(curve), True), (curve, False)):
                found = [e for e in examples_of(part, settings) if e[0].kind == "ahead"]
                rows += [(curve.publisher, *example) for example in found]
                seen += [of] * len(found)
        self._examples, self._seen = table_of(rows), np.array(seen)
        self._guesses = [guess(_seen(curve), _hidden(curve), settings) for curve in curves]
        self._curves, self._reach = curves, settings.reach

    def errors(self, publisher: str) -> Floats:
        """Return the log errors of all curves.

        Curves of other publishers are predicted without anything of `publisher`.
        """
        asked = np.array([curve.publisher for curve in self._curves])[:, None]
        of = self._examples.publishers[None]
        mine = asked == of
        weights = self._examples.weights * np.where(mine, OWN * self._seen, ~self._seen)
        weights = weights * ((of != publisher) | (asked == publisher))
        features = np.array([made.features for made in self._guesses])
        middle = self._examples.quantiles(features, weights, self._reach)[0]
        return np.array(
            [
                made.start + made.change + mid * made.step - curve.efficiency[-1]
                for made, mid, curve in zip(self._guesses, middle, self._curves, strict=True)
            ]
        )


def _seen(curve: Scaling) -> Scaling:
    return curve.part(0, len(curve) - 1)


def _hidden(curve: Scaling) -> Target:
    return Target(curve.devices[-1], curve.hosts[-1], curve.batch[-1])


def main() -> None:
    curves = read_published()
    asked = pd.Series([curve.publisher for curve in curves])
    weights = asked.groupby(asked).transform("size") ** -0.5
    trials = {settings: Trial(curves, settings) for settings in TRIED}
    nested = pd.Series(0.0, asked.index)
    chosen = []
    with progress("publishers", asked.nunique()) as advance:
        for publisher in asked.unique():
            mine = asked == publisher
            errors = {settings: trial.errors(publisher) for settings, trial in trials.items()}
            scores = {
                settings: np.average(np.abs(each[~mine]), weights=weights[~mine])
                for settings, each in errors.items()
            }
            best = min(scores, key=lambda settings: scores[settings])
            chosen.append(str(best))
            nested[mine] = errors[best][mine]
            advance(1)
    rows = predict_all()
    found = {
        f"settings in use, {USED}": levels(rows).loc["ours"],
        "chosen in each fold": levels(rows.assign(ours=nested)).loc["ours"],
    }
    print(pd.DataFrame(found).T.drop(columns="width").round(2).to_string(), end="\n\n")
    print(pd.Series(chosen).value_counts().to_string())


if __name__ == "__main__":
    main()
