"""Describe the fitted curves of a study to pages: their labels and answers."""

from typing import Any

import pandas as pd

from nodewise.predict.fit_curves import CURVE
from nodewise.predict.law import LAWS
from nodewise.report.context import ReportContext
from nodewise.report.page import curve_page
from nodewise.results.curve_points import curve_keys
from nodewise.strategies import STRATEGIES

_FEW = 3  # numbers of nodes; answers from fewer are guesses


def fitted_curves(study: ReportContext) -> dict[str, dict[str, Any]]:
    """Return the template variables of each fitted curve, by its key.

    These are `label` (model, strategy, experiment and nodes), the `page` that shows the curve, its
    `model` and `source`, its `answers`, and on what they rest: the numbers of `nodes` that it was
    fitted to and how far the formula is `off` there, in the median and at most.
    """
    optima, predictions = study.fit_tables["optima"], study.fit_tables["predictions"]
    points = study.tables["curves"]
    points = points.assign(curve=pd.Series(curve_keys(points), points.index, "str"))
    known = points.drop_duplicates("curve")[["curve", "cluster", "cell_id"]]
    firsts = predictions[[*CURVE, "law"]].drop_duplicates("curve")
    titled = study.with_titles(firsts.merge(known, "left", "curve").fillna("")).set_index("curve")
    on_jax = {name for name, one in STRATEGIES.items() if one.backend == "jax"}
    found = {}
    for row in firsts.to_dict("records"):
        key, source, words = str(row["curve"]), row["source"], titled.loc[row["curve"]]
        mine = predictions[predictions["curve"] == key]
        fitted = mine[mine["fitted"]]
        nodes = sorted(set(fitted["nodes"].astype(int)))
        where = [*words[["model", "strategy", "experiment"]], words["cluster"] or source]
        found[key] = {
            "label": " · ".join(filter(None, where)),
            "page": words["page"] or curve_page(row["model"], row["strategy"] or source),
            "model": row["model"],
            "source": source,
            "answers": answers(optima[optima["curve"] == key], max(nodes, default=1)),
            "figures": study.pick("fit", curve=key),
            "left_out": int((mine["observed_s"].notna() & ~mine["fitted"]).sum()),
            "nodes": nodes,
            "few": len(nodes) < _FEW,
            "off": [*fitted["error"].abs().agg(["median", "max"])],
            "one_machine": words["cluster"] == study.words["cluster"]("local"),
            "alone": LAWS[row["law"]].alone or ("with JAX" if row["strategy"] in on_jax else ""),
        }
    return found


def answers(optima: pd.DataFrame, measured: int) -> list[dict[str, Any]]:
    """Return how many nodes are best for a curve, from its rows of the table `optima`, by batch.

    The curve was fitted to at most `measured` nodes.

    Returns:
        Dictionaries with:
        - `batch_per_worker`, and `verdict`, which the template has a sentence for;
        - `least` and `most`: between these numbers of nodes an epoch may be shortest, by the 90 %
          intervals of the speed-ups; `fastest`: the number by the fit;
        - `pays`: from how many nodes on, up to `fastest`, an epoch is shorter than on one; or None;
        - `measured`: the most measured nodes that the table has; on these, the `speedup` of an
          epoch, its `price` as a multiple of one node's, and the seconds to the target accuracy,
          `run`, beside those on one node, `run_one`; `run_fastest`: the number of nodes that
          reach the accuracy soonest. Runs are None if they are not known.
    """
    return [_answer(rows, measured) for _, rows in optima.groupby("batch_per_worker")]


def _answer(rows: pd.DataFrame, measured: int) -> dict[str, Any]:
    is_run = rows["job"] == "run"
    epoch, run = rows[~is_run].set_index("nodes"), rows[is_run].set_index("nodes")["time"]
    possible = epoch.index[epoch["speedup_high"] >= epoch["speedup_low"].max()]
    measured = epoch.index[epoch.index <= measured].max()
    fastest = epoch["time"].idxmin()
    before = epoch.loc[:fastest, "speedup"]
    slower = before.index[before <= 1].max()
    if possible.min() == 1:
        verdict = "one" if possible.max() == 1 else "unknown"
    else:
        more = "always" if before.is_monotonic_increasing else "more"
        verdict = more if fastest == epoch.index.max() else "some"
    return {
        "batch_per_worker": int(rows["batch_per_worker"].iloc[0]),
        "measured": measured,
        "verdict": verdict,
        "least": possible.min(),
        "most": possible.max(),
        "fastest": fastest,
        "pays": None if fastest == 1 else before.index[before.index > slower][0],
        "speedup": epoch["speedup"][measured],
        "price": epoch["cost"][measured] / epoch["cost"][1],
        "run": run.get(measured),
        "run_one": run.get(1),
        "run_fastest": run.idxmin() if len(run) else None,
    }
