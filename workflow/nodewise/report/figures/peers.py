"""The figure of what our strategies add to a step, against Horovod and PyTorch."""

from pathlib import Path

import pandas as pd

from nodewise.report.context import ReportContext
from nodewise.report.figure import Axis
from nodewise.report.figures import figure

FILE = Path("data/bench/peers.json")  # its medians are beside it
NAMES = {"horovod": "Horovod", "ddp": "PyTorch DistributedDataParallel"}


def read_medians(study: ReportContext, file: Path = FILE) -> pd.DataFrame:
    """Return the medians beside the launches of a comparison, in the format of `bench/peers`.

    Models, strategies (`way`) and other frameworks have their titles.
    """
    rows = pd.read_csv(file.with_suffix(".csv")).fillna({"peer": ""})
    titles = {way: NAMES.get(way) or study.strategy_title(way) for way in rows["way"].unique()}
    return rows.assign(
        model=rows["model"].map(study.model_title),
        way=rows["way"].map(titles),
        peer=rows["peer"].replace(NAMES),
    )


@figure(
    "peers",
    each=["what"],
    plots="What our strategies add to a step, as a multiple of what another framework adds",
    mark="point",
    x=Axis("ratio", "Added time ÷ that of the other", "log", unit="×"),
    y=Axis("at", "Model, nodes", "names"),
    interval=("low", "high"),
    colour="way",
    facet="peer",
    guide="one",
    title=["Our strategies add {ratio_first} to {ratio} as much to a step as the others"],
    rank=["ratio"],
    caption="Dashed: as much as the other.",
    reading=(
        "A step on several nodes less one on one node, divided by that of the other framework. "
        "Points are medians over rounds in which all take turns."
    ),
)
def peers(study: ReportContext) -> pd.DataFrame:
    """Return the ratios of added times, by model, number of nodes, strategy and framework."""
    if not FILE.is_file():
        return pd.DataFrame()
    rows = read_medians(study)
    rows = rows[(rows["what"] == "added") & (rows["peer"] != "")].sort_values(["model", "nodes"])
    at = rows["model"] + ", " + rows["nodes"].astype(str)
    rows = rows.rename(columns={"median": "ratio"}).assign(at=at)
    return rows[["what", "kind", "at", "way", "peer", "ratio", "low", "high", "rounds"]]
