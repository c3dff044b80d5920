"""Figures of formulas that were fitted to curves and to all-reduces, and of models."""

import pandas as pd

from nodewise.core.units import kind_label, write_number
from nodewise.predict import calibration, fit_queries
from nodewise.report.context import ReportContext
from nodewise.report.figure import Axis
from nodewise.report.figures import _rows, figure
from nodewise.results.queries import LAUNCHES, POINT


@figure(
    "fit",
    each=fit_queries.CURVE,
    plots="Speed-up: measured, fitted and predicted",
    x=Axis("nodes", "Nodes", "log"),
    y=Axis("speedup", "Speed-up against its own one node", "log", unit="×"),
    interval=("low", "high"),
    colour="batch_per_worker",
    guide="diagonal",
    title=[
        "{nodes} nodes are predicted to be {speedup} as fast as one at batch {batch_per_worker} "
        "({low} to {high})",
    ],
    told="role == 'predicted' and low == low and ahead <= 2",
    rank=["nodes", "batch_per_worker"],
    caption="Line: the fitted formula, dashed where it predicts. Dotted: ideal scaling.",
    reading=(
        "Throughput against what the formula gives for one node, at the same batch per worker. The "
        "line is the formula, dashed where it predicts, shaded its interval. Points were measured."
    ),
)
def fit(study: ReportContext) -> pd.DataFrame:
    """Return the speed-ups of the formula with their intervals, and of the measured points.

    All are relative to one node by the formula.
    """
    curves, line = study.tables["curves"], ["curve", "batch_per_worker"]
    rows = _rows.without_compared(curves, study.overhead["predictions"])
    rows = fit_queries.fit_roles(fit_queries.with_launches(rows, curves))
    one = rows[(rows["role"] != "observed") & (rows["nodes"] == 1)].drop_duplicates(line)
    rows = rows.merge(one[[*line, "fitted_s"]], "inner", line, suffixes=("", "_one"))
    optima = study.overhead["optima"].query("job != 'run'").drop_duplicates([*line, "nodes"])
    ends = optima[[*line, "nodes", "speedup_low", "speedup_high"]]
    rows = rows.merge(ends.astype({"batch_per_worker": "int64"}), "left", [*line, "nodes"])
    observed = rows["role"] == "observed"
    seconds = rows["observed_s"].where(observed, rows["fitted_s"])
    kinds = [kind_label(*of) for of in rows[["source", "data_origin"]].to_numpy()]
    measured = rows[observed].groupby("curve")["nodes"].max()
    rows = rows.assign(
        kind=rows["role"].where(~observed, kinds),
        seconds=seconds,
        speedup=rows["nodes"] * rows["fitted_s_one"] / seconds,
        low=rows["speedup_low"].mask(observed),
        high=rows["speedup_high"].mask(observed),
        ahead=rows["nodes"] / rows["curve"].map(measured),
    )
    last = rows[rows["role"] == "fitted"].sort_values("nodes").drop_duplicates(line, keep="last")
    ahead = rows.loc[rows["role"] == "predicted", line].drop_duplicates()
    joint = last.merge(ahead, "inner", line).assign(role="predicted")  # it begins there
    rows = pd.concat([rows, joint], ignore_index=True).sort_values([*line, "nodes"], kind="stable")
    shown = ["kind", "role", *POINT, "ahead", "speedup", "low", "high", "seconds", *LAUNCHES]
    return rows[[*fit_queries.CURVE, *shown]]


@figure(
    "all_reduces",
    each=["study", "machine", "collective"],
    plots="Time of an all-reduce by payload and nodes",
    x=Axis("nodes", "Nodes"),
    y=Axis("seconds", "Time of one all-reduce (s)", "log", unit="s"),
    interval=("low", "high"),
    colour="payload",
    title=[
        "An all-reduce of {payload} takes {seconds} on {nodes} nodes, {seconds_first} on "
        "{nodes_first}",
    ],
    told="role == 'observed' and payload_bytes == payload_bytes.max()",
    rank=["payload_bytes", "nodes"],
    caption="Line: the fitted formula.",
    reading=(
        "In the node's own time. Points are the median over launches. Lines are the formula fitted "
        "to all points."
    ),
)
def all_reduces(study: ReportContext) -> pd.DataFrame:
    """Return the times of all-reduces in calibrations, as measured and by the formula."""
    parts: list[pd.DataFrame] = []
    for one in study.calibrations:
        for name, found in calibration.all_reduces(one).items():
            of = {"study": one.study, "machine": one.provenance.cpu, "collective": name}
            law = found.times[["nodes", "payload_bytes"]].assign(seconds=found.times["fitted"])
            parts += [
                found.times.assign(**of, kind=one.kind, role="observed"),
                law.assign(**of, kind="fitted", role="fitted"),
            ]
    if not parts:
        return pd.DataFrame()
    rows = pd.concat(parts, ignore_index=True).sort_values(["payload_bytes", "nodes"])
    rows["payload"] = [write_number(size, "B") for size in rows["payload_bytes"]]
    each = ["study", "machine", "collective"]
    shown = ["kind", "role", "payload", "payload_bytes", "nodes", "seconds", "low", "high"]
    return rows[[*each, *shown, "launches"]].astype({"launches": "Int64"})


@figure(
    "models",
    each=[],
    plots="What a model computes for each byte that it sends",
    mark="point",
    x=Axis("flops_per_byte", "FLOP per byte of a gradient, at a batch of one", "log", "FLOP/B"),
    y=Axis("model", "", "names"),
    title=["{model} computes {flops_per_byte}, {model_first} {flops_per_byte_first}"],
    rank=["flops_per_byte"],
    caption="A batch of b examples raises every model by the factor b.",
    reading=(
        "Operations of training one example, for each byte of a gradient. The more a model "
        "computes for each byte, the less communication weighs."
    ),
)
def models(study: ReportContext) -> pd.DataFrame:
    """Return what each model computes and communicates, from its description."""
    rows = pd.DataFrame(
        {
            "model": name,
            "kind": "counted",
            "payload_bytes": one.payload_bytes,
            "training_flops": one.training_flops_per_example,
            "flops_per_byte": one.flops_per_payload_byte,
        }
        for name, one in study.architectures.items()
    )
    return rows if rows.empty else rows.sort_values("flops_per_byte", ascending=False)
