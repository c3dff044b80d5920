"""What the page *Your case* provides for its calculator."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from calculator import interval_s, step_s
from nodewise.predict.fit import fit, interval_of
from nodewise.predict.laws.all_reduces import RingAllReduce
from nodewise.predict.points import Points
from nodewise.report.context import read_context
from nodewise.report.fitted_curves import Curves
from nodewise.report.pages.your_case import _preset, presets
from rendering import CONFIG

FEW = 50  # draws; the page has this many of each curve


@pytest.fixture(scope="module")
def offered(study):
    """Return each preset of a study with its fit and its curve."""
    context = read_context(CONFIG, study)
    curves = {curve.name: curve for curve in context.fits.curves}
    told = presets(context, Curves(context).labels)
    return [(one, context.fits.fit_by_curve[one["curve"]], curves[one["curve"]]) for one in told]


def test_the_page_computes_the_step_times_of_the_fit_and_their_intervals(offered):
    assert len(offered) > 1
    for preset, fitted, curve in offered:
        last = preset["batches"][-1]
        for batch in (*preset["batches"], round(0.8 * last), 3 * last):
            labels = {"model": curve.name, "link": curve.link}
            at = Points.of([1, 3, 32], batch, preset["payload"], **labels)
            low, high = interval_of(fitted.draw(at))
            step = fitted.evaluate(at)
            for i, nodes in enumerate((1, 3, 32)):
                assert step_s(preset, batch, nodes) == pytest.approx(step[i])
                ends = interval_s(preset, batch, nodes)
                assert ends == pytest.approx([low[i], high[i]], rel=0.01)


def test_a_few_draws_have_the_interval_of_all_where_the_page_begins():
    nodes, batch = np.meshgrid([1.0, 2, 3, 4], [32.0, 128])
    truth = 0.005 + 2e-4 * batch + 0.1 * (nodes > 1) * (1 - 1 / nodes)
    noise = np.exp(0.03 * np.random.default_rng(1).standard_normal(truth.shape))
    points = Points.of(nodes.ravel(), batch.ravel(), 5e6, (truth * noise).ravel())
    fitted = fit(RingAllReduce(), points)
    rows = pd.DataFrame({"nodes": points.nodes, "batch_per_worker": points.batch})
    preset = _preset(fitted, SimpleNamespace(name="", link=""), rows.assign(payload_bytes=5e6))
    assert len(fitted.draws) > FEW == len(preset["draws"]["latency_s"]["counts"])
    low, high = interval_of(fitted.draw(Points.of([4], 128, 5e6)))
    assert high[0] > 1.03 * low[0]
    assert interval_s(preset, 128, 4) == pytest.approx([low[0], high[0]], rel=0.005)
