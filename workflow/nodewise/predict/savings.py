"""Compute the share of training time that more nodes save, for models of a published study.

The share is 1 − t(n)/(n·t(1)) at a fixed batch per worker. As in the study, each model is
represented by the batch that saved most on its largest number of nodes, and the mean weighs all
models equally.
"""

import numpy as np
import pandas as pd

from nodewise.predict.curve_groups import CurveGroup
from nodewise.predict.fit import Fit, interval_of
from nodewise.predict.law import At, Floats

NODES = tuple(range(1, 11))


def saving_rows(group: CurveGroup, fitted: Fit) -> list[pd.DataFrame]:
    """Return rows of `savings` for each model and for their mean, which has an empty `model`.

    There are none if the group is not of a published study.
    """
    best: dict[str, tuple[float, float, Floats, Floats]] = {}
    if group.first["kind"] != "published" or not len(fitted.draws):
        return []
    for (curve, batch), line in group.fitted.rows.groupby(["curve", "batch_per_worker"]):
        seconds = line.set_index("nodes")["step_time_s"].sort_index().astype(float)
        if 1 in seconds.index and len(seconds) > 1:
            observed = _saved(seconds.to_numpy(), seconds.index.to_numpy(float))
            at = At.of(NODES, batch, float(line["payload_bytes"].median()))
            step_s = fitted.evaluate(at, curve, group.link)
            drawn = np.vstack([step_s, fitted.draw(at, curve, group.link)])
            seen = pd.Series(observed, seconds.index).reindex(NODES).to_numpy()
            model = str(line["model"].iloc[0])
            if model not in best or observed[-1] > best[model][0]:
                best[model] = observed[-1], batch, seen, _saved(drawn, at.nodes)
    if not best:
        return []
    tables = [
        _table(seen, saved).assign(model=model, batch_per_worker=int(batch))
        for model, (_, batch, seen, saved) in best.items()
    ]
    seen, saved = (np.mean([one[i] for one in best.values()], axis=0) for i in (2, 3))
    tables.append(_table(seen, saved).assign(model="", batch_per_worker=None))
    about = {"source": group.first["kind"], "study": group.first["study"]}
    return [pd.concat(tables).assign(**about)]


def _saved(step_s: Floats, nodes: Floats) -> Floats:
    """Return the share saved against one node, which comes first, in the shape of `step_s`."""
    return np.asarray(1 - step_s / (nodes * step_s[..., :1]))


def _table(observed: Floats, saved: Floats) -> pd.DataFrame:
    """Return rows by number of nodes; `saved` is by the law, then by draws, (1 + draws, nodes)."""
    low, high = interval_of(saved[1:])
    kind = np.where(np.isfinite(observed), "fitted", "predicted")
    table = {"nodes": NODES, "observed": observed, "saved": saved[0], "low": low, "high": high}
    return pd.DataFrame(table | {"kind": kind})
