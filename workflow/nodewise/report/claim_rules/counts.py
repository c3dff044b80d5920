"""Rules about what strategies count: bytes and updates."""

import pandas as pd

from nodewise.core.intervals import students_t
from nodewise.report import evidence
from nodewise.report.claim_rules import beside, claim_rule
from nodewise.results.columns import CURVE_KEY
from nodewise.results.queries import Tables, with_labels


@claim_rule("staleness")
def staleness(tables: Tables, _: Tables, *, strategy: str, tolerance: float) -> pd.DataFrame:
    """Check that the mean staleness equals the number of other workers.

    The ratio of the two must be one, within `tolerance`. Its interval is Student's t over the
    launches of a point.
    """
    noted = tables["observations"]
    noted = noted.loc[noted["observation"] == "staleness", ["cell_id", "mean"]]
    launches = noted.merge(tables["cells"], "inner", "cell_id")
    launches = launches[(launches["strategy"] == strategy) & (launches["nodes"] > 1)]
    ratio = launches["mean"] / (launches["nodes"] - 1)
    launches = launches.assign(ratio=ratio)
    found = launches.groupby(CURVE_KEY, as_index=False).agg(
        value=("ratio", "mean"), error=("ratio", "sem"), noted=("ratio", "size")
    )
    rows = with_labels(tables["curves"]).merge(found, "inner", CURVE_KEY)
    rows = evidence.check_times(rows.assign(repeats=rows["noted"]), tables)
    reach = rows["error"] * students_t(rows["noted"] - 1)
    return rows.assign(
        low=rows["value"] - reach,
        high=rows["value"] + reach,
        least=1 - tolerance,
        most=1 + tolerance,
    )


@claim_rule("lowers_traffic")
def lowers_traffic(tables: Tables, _: Tables, *, way: str, than: str, times: float) -> pd.DataFrame:
    """Check that the strategy `than` sends at least `times` as many bytes per step as `way`."""
    curves = with_labels(tables["curves"])
    pair = beside(curves[curves["nodes"] > 1], way, than)
    pair = pair[pair["bytes_sent_per_step"] > 0]
    ratio = pair["bytes_sent_per_step_other"] / pair["bytes_sent_per_step"]
    rows = pair.assign(value=ratio, low=ratio, high=ratio, least=float(times))
    return evidence.check_bytes(rows, tables)
