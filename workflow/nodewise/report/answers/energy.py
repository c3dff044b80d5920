"""Answer the question: What does it cost in energy?"""

from dataclasses import replace

import pandas as pd
from markupsafe import Markup

from nodewise.core.units import counted
from nodewise.report import evidence
from nodewise.report.answers import answer
from nodewise.report.comparison_words import kind_of
from nodewise.report.context import ReportContext
from nodewise.report.finding import Finding
from nodewise.report.html import badge, number, text
from nodewise.report.tables import EVIDENCE, POINT, Column
from nodewise.results.cautions import cautions_of_launches
from nodewise.results.columns import CURVE_KEY, ONE_NODE_KEY, SINGLE
from nodewise.results.comparisons import flags_with_one, on_devices
from nodewise.results.queries import Tables

_ENERGY = [
    *POINT,
    Column("energy_one_j", "1,000 examples on one node", "J", kind_from="label"),
    Column("energy_j", "1,000 examples", "J", kind_from="label"),
    Column("ratio", "Against one node", "×", kind_from="label"),
    *EVIDENCE,
]


@answer("energy", order=6)
def energy_cost(study: ReportContext) -> Finding:
    """Compare the energy of a thousand examples on several nodes with that on one node."""
    rows = evidence.check_times(_energies(study.tables), study.tables, other="_one")
    asked = Finding("energy", "What does it cost in energy?", "cells", rows=rows, columns=_ENERGY)
    counting = evidence.select(rows)
    if counting.empty:
        return asked
    ranked = counting.sort_values("ratio", kind="stable")
    least, most = ranked.iloc[0], ranked.iloc[-1]
    more, compared = int((counting["ratio"] > 1).sum()), counted(len(counting), "comparison")
    answer = Markup(
        "In {} an example took more energy on several nodes than on one. The median ratio is {}; "
        "it ranges from {} ({}) to {} ({})."
    ).format(
        text(f"all {compared}" if more == len(counting) > 1 else f"{more} of {compared}"),
        number(counting["ratio"].median(), "×", kind_of(counting)),
        number(least["ratio"], "×", least["label"]),
        study.point(least),
        number(most["ratio"], "×", most["label"]),
        study.point(most),
    )
    limits = [
        text(
            "This is about training steps alone: starting up and evaluating are left out. Values "
            "are medians over launches, without an interval."
        )
    ]
    if (counting["label"] == "estimated").any():
        limits.append(
            Markup(
                "Without a meter it is {}: CPU time × {:g} W per busy core. The power of idle "
                "cores, memory and network is left out."
            ).format(badge("estimated"), study.config.watts_per_core)
        )
    cells = [least["cell_id"], most["cell_id"]]
    return replace(asked, answer=answer, cells=cells, limits=limits)


def _energies(tables: Tables) -> pd.DataFrame:
    """Return the energy per thousand examples on several nodes and on one node.

    There is one row per point, with medians over launches: `energy_j`, `energy_one_j` on one node,
    and their `ratio`. `label` is the kind of both: `estimated` unless both were metered.
    """
    cells = tables["cells"]
    cells = cells[(cells["status"] == "ok") & cells["energy_j"].notna() & (cells["steps"] > 0)]
    examples = (cells["steps"] * cells["global_batch"]).astype("float64")
    cells = cells.assign(energy_j=1000 * cells["energy_j"] / examples)
    points = cells.groupby(CURVE_KEY, as_index=False).agg(
        energy_j=("energy_j", "median"),
        label=("energy_kind", "min"),  # "estimated" if any launch is
        flags=("flags", cautions_of_launches),
        exchange=("exchange", "first"),
        cell_id=("cell_id", "first"),
        repeats=("cell_id", "size"),
    )
    alone = points.loc[points["strategy"] == SINGLE].drop(columns=["strategy", "nodes", "exchange"])
    rows = points[(points["nodes"] > 1) & ~on_devices(points)]
    rows = rows.merge(alone, "inner", ONE_NODE_KEY, suffixes=("", "_one"))
    return rows.assign(
        label=rows["label"].where(rows["label"] == rows["label_one"], "estimated"),
        flags=flags_with_one(rows),
        energy_one_j=rows["energy_j_one"],
        ratio=rows["energy_j"] / rows["energy_j_one"],
    )
