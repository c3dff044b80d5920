"""Evaluate a calibration: check shares and links of nodes against the configuration, fit α and β.

Times in these tables are in the node's own time (wall time × share), unless their name says wall.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from nodewise.core.intervals import pooled_factors
from nodewise.predict.all_reduce_law import FittedAllReduce, fit_all_reduces
from nodewise.predict.law import Floats
from nodewise.results.calibration import AllReduce, Calibration, Collective
from nodewise.results.table_files import typed

SHARE_WITHIN = 0.03
BYTES_WITHIN = 0.01
PREDICTED_WITHIN = 0.05
# In smaller payloads, the framing of messages (some hundred bytes) is a noticeable part.
BYTES_JUDGED_FROM = 512_000

NOT_JUDGED = "not judged"
OWN_TIME, WALL_TIME = "the node's own", "wall"

SHARES = {
    "nodes": "int64",
    "launches": "int64",
    "quota": "float64",
    "share": "float64",
    "lowest": "float64",
    "highest": "float64",
    "error": "float64",
    "verdict": "str",
}
LINKS = {
    "launch": "int64",
    "configured_bit_s": "float64",
    "payload_share": "float64",
    "expected_bit_s": "float64",
    "achieved_bit_s": "float64",
    "error": "float64",
    "round_trip_s": "float64",
}
STREAMS = {
    "sender": "str",
    "receiver": "str",
    "achieved_bit_s": "float64",
    "round_trip_s": "float64",
}
TRAFFIC = {
    "nodes": "int64",
    "payload_bytes": "int64",
    "launches": "int64",
    "law_bytes": "float64",
    "sent_bytes": "float64",
    "excess": "float64",
    "worst": "float64",
    "verdict": "str",
}
TIMES = {
    "role": "str",
    "nodes": "int64",
    "payload_bytes": "int64",
    "launches": "Int64",
    "seconds": "float64",
    "low": "float64",
    "high": "float64",
    "wall_s": "float64",
}
COEFFICIENTS = {
    "clock": "str",
    **{
        f"{name}{end}": "float64"
        for name in ("software_s", "latency_s", "bandwidth_bytes_per_s")
        for end in ("", "_low", "_high")
    },
}
PREDICTIONS = {
    "nodes": "int64",
    "payload_bytes": "int64",
    "observed_s": "float64",
    "observed_wall_s": "float64",
    "predicted_s": "float64",
    "low": "float64",
    "high": "float64",
    "error": "float64",
    "verdict": "str",
}


@dataclass(frozen=True)
class Trial:
    """The law fitted to small node counts `fitted_to`, used to predict `predicted_for` nodes."""

    fitted: FittedAllReduce
    fitted_to: tuple[int, ...]
    predicted_for: int


@dataclass(frozen=True)
class AllReduces:
    """Tables about the all-reduces of one collective.

    With fewer than three node counts, `trial` is None and `predictions` is empty.
    """

    traffic: pd.DataFrame
    times: pd.DataFrame
    coefficients: pd.DataFrame
    predictions: pd.DataFrame
    trial: Trial | None

    @property
    def own_time(self) -> "pd.Series[Any]":
        """The row of `coefficients` that is in the node's own time."""
        return self.coefficients[self.coefficients["clock"] == OWN_TIME].iloc[0]


@dataclass(frozen=True)
class Findings:
    """The results of a calibration as tables. Their columns are declared above.

    `all_reduces` has an entry for each measured collective. It is empty if no launch had two nodes.
    """

    shares: pd.DataFrame
    links: pd.DataFrame
    streams: pd.DataFrame
    all_reduces: dict[Collective, AllReduces]


_Blocks = list[tuple[int, AllReduce]]  # number of nodes, and block of all-reduces


def examine(calibration: Calibration) -> Findings:
    """Return the tables of a calibration whose status is ok. The result is deterministic."""
    measured: dict[Collective, _Blocks] = {}
    for launch in calibration.launches:
        for block in launch.all_reduces:
            measured.setdefault(block.collective, []).append((launch.nodes, block))
    share = calibration.cluster.share
    return Findings(
        shares=_shares(calibration),
        links=_links(calibration),
        streams=_streams(calibration),
        all_reduces={name: _all_reduces(blocks, share) for name, blocks in measured.items()},
    )


def _all_reduces(blocks: _Blocks, share: float) -> AllReduces:
    observed = _observed(blocks)
    fitted, trial = fit_all_reduces(observed), _try(observed)
    times = _roles(observed, fitted, trial, share)
    return AllReduces(
        traffic=_traffic(blocks),
        times=times,
        coefficients=_coefficients(fitted, share),
        predictions=_predictions(times),
        trial=trial,
    )


def _verdict(error: float, within: float) -> str:
    return "holds" if abs(error) <= within else "missed"


def _shares(calibration: Calibration) -> pd.DataFrame:
    """Return one row per node count: the share of a core that busy workers got in all launches."""
    quota = calibration.cluster.share
    seen: dict[int, list[list[float]]] = {}
    for launch in calibration.launches:
        seen.setdefault(launch.nodes, []).append([busy.share for busy in launch.busy])
    rows = []
    for nodes, launches in sorted(seen.items()):
        shares = np.concatenate(launches)
        error = max(shares / quota - 1, key=abs)
        rows.append(
            {
                "nodes": nodes,
                "launches": len(launches),
                "quota": quota,
                "share": np.median(shares),
                "lowest": shares.min(),
                "highest": shares.max(),
                "error": error,
                "verdict": _verdict(error, SHARE_WITHIN),
            }
        )
    return typed(rows, SHARES)


def _links(calibration: Calibration) -> pd.DataFrame:
    """Return one row per stream: achieved rate, configured rate, and that rate without headers.

    Round trips are in wall seconds, and NaN if not measured. Networks of real hosts have no
    configured rate; all columns that depend on it are then NaN.
    """
    rate = calibration.cluster.link_bit_s
    configured = rate if np.isfinite(rate) else np.nan
    rows = [
        {
            "launch": number,
            "configured_bit_s": configured,
            "payload_share": launch.transfer.payload_share,
            "expected_bit_s": configured * launch.transfer.payload_share,
            "achieved_bit_s": launch.transfer.bits_per_s,
            "error": launch.transfer.bits_per_s / (configured * launch.transfer.payload_share) - 1,
            "round_trip_s": launch.transfer.round_trip_s,
        }
        for number, launch in enumerate(calibration.launches, 1)
        if launch.transfer is not None
    ]
    return typed(rows, LINKS)


def _streams(calibration: Calibration) -> pd.DataFrame:
    """Return one row per stream between two hosts, the slowest first, in wall seconds."""
    rows = [
        {
            "sender": stream.ends[0],
            "receiver": stream.ends[1],
            "achieved_bit_s": stream.bits_per_s,
            "round_trip_s": stream.round_trip_s,
        }
        for stream in sorted(calibration.streams, key=lambda one: one.bits_per_s)
    ]
    return typed(rows, STREAMS)


def _traffic(blocks: _Blocks) -> pd.DataFrame:
    """Return one row per node count and payload: bytes sent by a worker, and the law's 2(n−1)/n·S.

    Small payloads are not judged; see `BYTES_JUDGED_FROM`.
    """
    seen: dict[tuple[int, int], list[Floats]] = {}
    for nodes, block in blocks:
        sent = np.array(block.bytes_sent) / block.repeats
        seen.setdefault((nodes, block.payload_bytes), []).append(sent)
    rows = []
    for (nodes, payload), launches in sorted(seen.items()):
        law = 2 * (nodes - 1) / nodes * payload
        sent = np.concatenate(launches)
        worst = max(sent / law - 1, key=abs)
        judged = payload >= BYTES_JUDGED_FROM
        rows.append(
            {
                "nodes": nodes,
                "payload_bytes": payload,
                "launches": len(launches),
                "law_bytes": law,
                "sent_bytes": sent.mean(),
                "excess": sent.mean() / law - 1,
                "worst": worst,
                "verdict": _verdict(worst, BYTES_WITHIN) if judged else NOT_JUDGED,
            }
        )
    return typed(rows, TRAFFIC)


def _observed(blocks: _Blocks) -> pd.DataFrame:
    """Return one row per node count and payload. `wall` is an array of wall seconds, by launch."""
    rows = [
        {"nodes": nodes, "payload_bytes": block.payload_bytes, "wall": block.seconds_each}
        for nodes, block in blocks
    ]
    points = pd.DataFrame(rows)
    return points.groupby(["nodes", "payload_bytes"])["wall"].apply(np.array).reset_index()


def _try(times: pd.DataFrame) -> Trial | None:
    """Fit without the largest node count; None if there are fewer than three node counts.

    The fit uses node counts up to half of the largest (for example up to four, to predict eight).
    If that is only one, it uses all but the largest.
    """
    counts = sorted(int(nodes) for nodes in times["nodes"].unique())
    if len(counts) < 3:
        return None
    low = [nodes for nodes in counts if 2 * nodes <= counts[-1]]
    fitted_to = low if len(low) > 1 else counts[:-1]
    fitted = fit_all_reduces(times[times["nodes"].isin(fitted_to)])
    return Trial(fitted, tuple(fitted_to), counts[-1])


def _predictions(times: pd.DataFrame) -> pd.DataFrame:
    """Return one row per payload: prediction and observation at the held-out node count."""
    held, observed = (times[times["role"] == role] for role in ("held out", "observed"))
    rows = held.merge(observed, on=["nodes", "payload_bytes"], suffixes=("", "_observed"))
    errors = (rows["wall_s"] / rows["wall_s_observed"] - 1).abs()
    rows = rows.rename(columns={"seconds": "predicted_s"}).assign(
        observed_s=rows["seconds_observed"],
        observed_wall_s=rows["wall_s_observed"],
        error=errors,
        verdict=[_verdict(error, PREDICTED_WITHIN) for error in errors],
    )
    return typed(rows, PREDICTIONS)


def _coefficients(fitted: FittedAllReduce, share: float) -> pd.DataFrame:
    """Return s, α and 1/β with 90 % intervals: a row in the node's own time, one in wall time."""
    triples = {
        name: np.array([part.value(name, label), *part.interval(name, label)])
        for part in (fitted.messages, fitted.sent_bytes)
        for name, label in part.coefficients
    }
    rows = []
    for clock, factor in ((OWN_TIME, share), (WALL_TIME, 1.0)):
        ends = {name: factor * triple for name, triple in triples.items()}
        beta, least, most = ends.pop("seconds_per_byte")
        ends["bandwidth_bytes_per_s"] = np.array([_inverse(x) for x in (beta, most, least)])
        row: dict[str, Any] = {"clock": clock}
        for name, triple in ends.items():
            row |= dict(zip((name, f"{name}_low", f"{name}_high"), triple, strict=True))
        rows.append(row)
    return typed(rows, COEFFICIENTS)


def _inverse(seconds_per_byte: float) -> float:
    return 1 / seconds_per_byte if seconds_per_byte > 0 else np.nan


def _roles(
    times: pd.DataFrame, fitted: FittedAllReduce, trial: Trial | None, share: float
) -> pd.DataFrame:
    """Return the table `TIMES`: observed points, fitted and predicted lines, held-out points.

    The predicted line begins at the largest node count that it was fitted to.
    """
    payloads = np.unique(times["payload_bytes"].to_numpy(float))
    counts = np.unique(times["nodes"].to_numpy(float))
    parts = [_observed_rows(times, share)]
    parts.append(_law_rows("fitted", fitted, counts, payloads, share))
    if trial is not None:
        line = counts[counts >= trial.fitted_to[-1]]
        parts.append(_law_rows("predicted", trial.fitted, line, payloads, share))
        most = times[times["nodes"] == trial.predicted_for]
        held = most["payload_bytes"].to_numpy(float)
        parts.append(_law_rows("held out", trial.fitted, counts[-1:], held, share))
    return typed(pd.concat(parts), TIMES)


def _observed_rows(times: pd.DataFrame, share: float) -> pd.DataFrame:
    rows = times.assign(role="observed", launches=[len(wall) for wall in times["wall"]])
    rows["wall_s"] = [float(np.median(wall)) for wall in times["wall"]]
    rows["seconds"] = rows["wall_s"] * share
    factors = pooled_factors([*times["wall"]])
    return rows.assign(low=rows["seconds"] / factors, high=rows["seconds"] * factors)[[*TIMES]]


def _law_rows(
    role: str, fitted: FittedAllReduce, counts: Floats, payloads: Floats, share: float
) -> pd.DataFrame:
    """Return the law's times at every combination of node count and payload."""
    nodes, payload = (axis.ravel() for axis in np.meshgrid(counts, payloads))
    wall = fitted.evaluate(nodes, payload)
    low, high = fitted.evaluate_interval(nodes, payload)
    return pd.DataFrame(
        {
            "role": role,
            "nodes": nodes,
            "payload_bytes": payload,
            "launches": None,
            "seconds": wall * share,
            "low": low * share,
            "high": high * share,
            "wall_s": wall,
        }
    )
