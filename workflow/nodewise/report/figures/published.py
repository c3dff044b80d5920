"""Figures of what others published: how models scale, how far off predictions were, batches."""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from nodewise.core.units import write_number
from nodewise.predict.fit import interval_of
from nodewise.predict.steps_to_accuracy import (
    BY_EPOCHS,
    KEY,
    StepsToAccuracy,
    fit_counted,
    published_laws,
    reference_runs,
    runs_to,
    whole_runs,
)
from nodewise.report import published_rows
from nodewise.report.context import ReportContext
from nodewise.report.figure import Axis
from nodewise.report.figures import figure
from nodewise.results import published

_MOST_MODELS = 6
_DRAWS = 400


@figure(
    "real_scaling",
    each=[],
    plots="Speed of each device, against one device alone",
    x=Axis("devices", "Devices", "log"),
    y=Axis("efficiency", "Speed of each device", unit="share"),
    interval=("low", "high"),
    colour="link",
    facet="model",
    guide="one",
    title=[
        "{devices} machines on 10 Gbit/s are predicted to train {model} {times_as_fast} times "
        "as fast as one, {model_first} {times_as_fast_first} times"
    ],
    told=f"link == '{published_rows.SLOW}' and devices == 8",
    rank=["devices", "efficiency"],
    caption="Times as fast as one: devices × speed of each. Points: the median of what a publisher "
    "measured. Lines: forecasts from one device.",
    reading=(
        "Points are published: the speed of n devices over n times that of one, the median of each "
        "publisher. Lines are the medians of forecasts that start from one device and did not "
        "learn from the publisher. No publisher measured the slowest link: the forecasts there are "
        "of V100s, one in each machine."
    ),
)
def real_scaling(study: ReportContext) -> pd.DataFrame:
    """Return the efficiencies of published trainings and of their forecasts."""
    rows = published_rows.scaling().copy()
    order = {name: i for i, name in enumerate((*published_rows.MODELS, *published_rows.LINKS))}
    rows["role"] = rows["kind"].where(rows["kind"] == "predicted", "")
    times = rows["devices"] * rows["efficiency"]
    rows["times_as_fast"] = [write_number(one, "times") for one in times]
    ranked = rows.sort_values(
        ["model", "link", "devices"], key=lambda names: names.map(order).fillna(names)
    )
    ends = ["low", "high"]  # within machines they are all alike and would hide the points
    ranked[ends] = ranked[ends].mask(ranked["link"].isin(published_rows.IN_MACHINE))
    return ranked.astype({"devices": int})


@figure(
    "tested",
    each=[],
    plots="Predicted over measured speed",
    x=Axis("devices", "Devices predicted for", "log"),
    y=Axis("ratio", "Predicted ÷ measured speed", "log", unit="×"),
    mark="point",
    colour="range",
    facet="how",
    free=True,
    guide="one",
    title=["Half of the forecasts are off by at most {median_of_all}, nine in ten by {p90_of_all}"],
    units={"median_of_all": "share", "p90_of_all": "share"},
    caption="Above the dashed line, training was slower than predicted.",
    reading=(
        "Each point is one test: a forecast from one point of a published training, or the hidden "
        "last point of a published curve, predicted from the others. On the dashed line it was "
        "exact."
    ),
)
def tested(study: ReportContext) -> pd.DataFrame:
    """Return all tests on published numbers."""
    rows = pd.concat([published_rows.forecasts(), published_rows.continued()])
    named = rows["inside"].map({True: "inside the 90 % interval", False: "outside"})
    off = published.read("forecast/judged").set_index("link").loc["all", ["median", "p90"]]
    columns = ["how", "devices", "ratio", "model", "link", "publisher"]
    return rows[columns].assign(**off.add_suffix("_of_all"), range=named, kind="predicted")


@figure(
    "samples",
    each=[],
    plots="Examples to the target, by global batch",
    x=Axis("global_batch", "Global batch", "log"),
    y=Axis("against_least", "Examples, against the least", "log", unit="×"),
    interval=("low", "high"),
    colour="point",
    facet="model",
    free=True,
    title=[
        "{model} needs twice the fewest examples from {global_batch} a step on; "
        "{model_first} from {global_batch_first} on"
    ],
    told="point == 'critical batch'",
    rank=["global_batch"],
    caption="Lines: the fitted formula. Twice the least are needed at the critical batch.",
    reading=(
        "Each point is the median of the trainings with one global batch: how many examples they "
        "needed to the target, over those that the smallest batches need by the formula."
    ),
)
def samples(study: ReportContext) -> pd.DataFrame:
    """Return the examples to a target: of published models with many batches, and of our own."""
    runs = reference_runs()
    batches = runs[runs["known"]].groupby("benchmark")["global_batch"].nunique()
    parts: list[pd.DataFrame] = []
    for name in batches.sort_values(ascending=False, kind="stable").index[:_MOST_MODELS]:
        of = runs[runs["benchmark"] == name]
        counts = of.groupby("global_batch")["examples"].median()
        parts += _of_model(of["model"].iloc[0], published_laws()[name], counts, "published")
    epochs = whole_runs(study.tables["epochs"], study.tables["cells"])
    steps = study.fit_tables["steps_to_accuracy"]
    for row in steps[(steps["basis"] == BY_EPOCHS) & steps["target"].notna()].to_dict("records"):
        own = epochs[(epochs[KEY] == [row[name] for name in KEY]).all(axis=1)]
        batch, examples = runs_to(own, row["target"])
        counts = pd.Series(examples).groupby(batch).median()
        title = f"{study.model_title(row['model'])} (ours)"
        parts += _of_model(title, fit_counted(batch, examples), counts, "measured")
    return pd.concat(parts)


def _of_model(
    model: str, law: StepsToAccuracy, counts: "pd.Series[float]", kind: str
) -> Iterator[pd.DataFrame]:
    """Yield the points of a model, the line of its law, and its critical batch if it is near."""
    least, critical = law.coefficients[0, 1], float(f"{law.critical_batch:.2g}")
    seen = critical < 2 * counts.index.max()
    batch = np.geomspace(counts.index.min(), max(counts.index.max(), critical * seen), 12)
    drawn = law.examples(batch, _DRAWS) / least
    low, high = interval_of(drawn)
    point = "our trainings" if kind == "measured" else f"{kind} trainings"
    yield _rows(model, point, kind, counts.index.astype(float), counts.to_numpy() / least)
    line = _rows(model, point, "fitted", batch, drawn[0])
    yield line.assign(role="fitted", low=low, high=high)
    if seen:
        yield _rows(model, "critical batch", "fitted", [critical], [2.0])


def _rows(model: str, point: str, kind: str, batch: ArrayLike, examples: ArrayLike) -> pd.DataFrame:
    rows = {"model": model, "point": point, "role": "", "kind": kind}
    return pd.DataFrame({"global_batch": batch, "against_least": examples}).assign(**rows)
