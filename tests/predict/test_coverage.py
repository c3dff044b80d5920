"""About 90 % of the 90 % intervals contain the synthetic truth, and they are narrow enough."""

import interval_coverage as synthetic
import pandas as pd
import pytest

from nodewise.predict.fit import fit, interval_of
from nodewise.predict.law import LAWS
from nodewise.predict.points import Points

pytestmark = pytest.mark.slow

TRUTHS, SEED, DRAWS = 64, 7, 100


@pytest.fixture(scope="module")
def rows():
    trials = [synthetic.trial(SEED, number) for number in range(TRUTHS)]

    def answers(batch):
        answers = (synthetic.ask(t, t.truth.law, batch, DRAWS) for t in trials)
        return pd.DataFrame([row for rows in answers for row in rows])

    return {"own": answers(synthetic.TYPICAL), "new": answers(synthetic.UNMEASURED)}


@pytest.mark.parametrize("batch", ["own", "new"])
def test_intervals_hold_the_truth_about_as_often_as_they_say(rows, batch):
    # With p = 0.9, the share of 64 truths is between 0.81 and 0.97 in 95 of 100 cases.
    assert 0.81 <= rows[batch]["covered"].mean() <= 0.97


def test_intervals_are_of_use(rows):
    assert rows["own"].query("parts and asked == 8")["width"].median() < 0.3


def test_what_was_never_measured_is_as_wide_as_not_to_know():
    points = Points.of(nodes=1, batch=[32, 64], payload=4e6, step_s=[0.03, 0.05])
    fitted = fit(LAWS["ring"], points)
    low, high = interval_of(fitted.draw(Points.of([1, 2], 32, 4e6)))
    assert high[0] / low[0] < 1.4
    assert 2 < high[1] / low[1] < 20
