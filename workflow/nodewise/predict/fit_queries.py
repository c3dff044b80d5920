"""Tables of fits -> what charts and pages show of them. Frames in, frames out."""

import pandas as pd

from nodewise.predict.judge import LARGEST
from nodewise.predict.study import ALL_POINTS, OVERSUBSCRIBED
from nodewise.results.cautions import OVERSUBSCRIBED as TOO_MANY_WORKERS
from nodewise.results.queries import LAUNCHES, POINT, Tables, scaling_lines

CURVE = ["source", "study", "experiment", "model", "strategy", "curve"]
NEAR = 10  # nodes that figures reach to, at least


def with_launches(predictions: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return the predictions; where a point of ours was observed, with its launches and a cell."""
    lines = pd.concat([scaling_lines(curves), curves.assign(line=curves["strategy"])])
    lines = lines.drop(columns="strategy").rename(columns={"line": "strategy", "kind": "source"})
    at = ["source", "study", "experiment", "model", "strategy", *POINT]
    rows = predictions.merge(lines.drop_duplicates(at)[[*at, *LAUNCHES]], "left", at)
    observed = rows["observed_s"].notna()
    return rows.assign(
        repeats=rows["repeats"].where(observed).astype("Int64"),
        flags=rows["flags"].where(observed).fillna(""),
        cell_id=rows["cell_id"].where(observed).fillna(""),
    )


def with_trials(overhead: Tables) -> pd.DataFrame:
    """Return the predictions, and `held_out` beside them: what laws gave for points not shown."""
    predictions = overhead["predictions"]
    held = held_out(overhead["trials"]).rename(columns={"predicted_s": "fitted_s"})
    crowded = predictions["scenario"] == OVERSUBSCRIBED
    trials = held.assign(beyond=True, held_out=True)
    return pd.concat([predictions.assign(held_out=crowded), trials], ignore_index=True)


def near(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of up to ten nodes, or up to the most that were measured of their curve."""
    measured = predictions["nodes"].where(predictions["observed_s"].notna())
    most = measured.groupby(predictions["curve"]).transform("max")
    return predictions[predictions["nodes"] <= most.clip(lower=NEAR)]


def fit_roles(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return what the figure of a fit shows, with its `role`.

    `fitted` and `predicted` are points of the line, the latter on more nodes than any point it was
    fitted to; `observed` are the observed points, `held out` what a law gave for points that it
    was not shown. `flags` says what observed points call for caution about: theirs, or, where
    the predictions have none, that there were more workers than cores.

    Args:
        predictions: as `with_trials` or `with_launches` returns them.
    """
    lines = full_fit(predictions)
    lines["role"] = lines["beyond"].map({True: "predicted", False: "fitted"})
    crowded = predictions["scenario"] == OVERSUBSCRIBED
    cautions = crowded.map({True: TOO_MANY_WORKERS, False: ""})
    own = predictions.get("flags", cautions)
    rows = predictions.assign(flags=own.mask(own == "", cautions))
    measured = crowded | (rows["scenario"] == ALL_POINTS)
    points = rows[measured].dropna(subset="observed_s").assign(role="observed")
    held = rows[rows["held_out"] & ~measured].assign(role="held out")
    return pd.concat([lines.assign(flags=""), points, held], ignore_index=True)


def held_out(trials: pd.DataFrame) -> pd.DataFrame:
    """Return what a way's own law gave for the largest node counts, fitted to all smaller ones."""
    return trials[trials["own"] & (trials["scenario"] == LARGEST)]


def full_fit(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return the fits to all points."""
    return predictions[predictions["scenario"] == ALL_POINTS].copy()


def coefficients_of(fits: pd.DataFrame, curve: str) -> pd.DataFrame:
    """Return the coefficients of a curve, and those that it shares with others of its fits.

    Curves of one link have different fits where what their law takes for known differs.
    """
    of_fit = ["link", "law", "settings"]
    own = fits["curve"] == curve
    mine = fits.loc[own, of_fit].drop_duplicates()
    shared = fits[of_fit].merge(mine, "left", indicator=True)["_merge"] == "both"
    return fits[own | (shared.to_numpy() & (fits["curve"] == ""))]


def speedup_roles(predictions: pd.DataFrame) -> pd.DataFrame:
    """Return `fit_roles` without what was held out, with `examples_per_s` and `speedup` by it.

    The speed-up of an observed point is against the observed point on one node, that of the line
    against the line. A curve without either has none.
    """
    rows = fit_roles(predictions)
    rows = rows[rows["role"] != "held out"]
    seconds = rows["observed_s"].where(rows["role"] == "observed", rows["fitted_s"])
    rows = rows.assign(seconds=seconds, observed=rows["role"] == "observed")
    at = ["curve", "batch_per_worker", "observed"]
    one = rows.loc[rows["nodes"] == 1, [*at, "seconds"]]
    rows = rows.merge(one, "left", at, suffixes=("", "_one"))
    rows["speedup"] = rows["nodes"] * rows["seconds_one"] / rows["seconds"]
    rows["examples_per_s"] = rows["nodes"] * rows["batch_per_worker"] / rows["seconds"]
    return rows.dropna(subset="speedup").reset_index(drop=True)


def reach(predictions: pd.DataFrame, optima: pd.DataFrame) -> pd.DataFrame:
    """Return `speedup_roles`, with the 90 % interval of the lines' speed-ups: `low`, `high`.

    Args:
        predictions: as `with_trials` returns them.
        optima: the table of that name.
    """
    rows = speedup_roles(predictions)
    efficiency = optima[optima["objective"] == "efficiency"]
    ends = efficiency.assign(
        batch_per_worker=efficiency["batch_per_worker"].astype("int64"),
        low=efficiency["nodes"] * efficiency["low"],
        high=efficiency["nodes"] * efficiency["high"],
    )[["curve", *POINT, "low", "high"]]
    rows = rows.merge(ends, "left", ["curve", *POINT])
    line = rows["role"] != "observed"
    return rows.assign(low=rows["low"].where(line), high=rows["high"].where(line))


def link_rates(rates: pd.DataFrame) -> pd.DataFrame:
    """Return the line (one batch of one curve) that has most measured points, in long form.

    Of lines with as many it is the one with the largest batch. `role` tells the points, `observed`,
    from its law: `within` the rates and nodes that were measured, or `beyond`.
    """
    line = ["curve", "batch_per_worker"]
    seen = rates[rates["observed_s"].notna()].groupby(line).size().reset_index(name="seen")
    best = seen.sort_values(["seen", "batch_per_worker"], kind="stable").tail(1)
    rows = rates.merge(best[line], "inner", line)
    law = rows.assign(role=rows["beyond"].map({True: "beyond", False: "within"}), cell_id="")
    points = rows[rows["observed_s"].notna()].assign(
        role="observed",
        fitted_s=rows["observed_s"],
        efficiency=rows["observed_efficiency"],
        **dict.fromkeys(["low_s", "high_s", "efficiency_low", "efficiency_high"], float("nan")),
    )
    return pd.concat([law, points], ignore_index=True)


def with_flags(points: pd.DataFrame, curves: pd.DataFrame) -> pd.DataFrame:
    """Return the points with the `flags` of the curve points of the same cell; others have none."""
    flags = curves.drop_duplicates("cell_id").set_index("cell_id")["flags"]
    return points.assign(flags=points["cell_id"].map(flags).fillna(""))


def mean_savings(savings: pd.DataFrame) -> pd.DataFrame:
    """Return what more nodes save in the mean over the models of each published study."""
    return savings[(savings["model"] == "") & (savings["nodes"] > 1)].reset_index(drop=True)
