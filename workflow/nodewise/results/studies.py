"""Read which studies were published, and what they claim, from data/published.

A study is a folder with a file study.yaml. The README there explains its files. Their numbers are
read by `nodewise.results.published`.
"""

import sys
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, TypeAdapter

from nodewise.core.cell import Frozen, Name
from nodewise.core.schema import read_yaml

_FOLDERS = (  # of a clone, or of an installed package
    Path(str(files("nodewise"))) / "../../data/published",
    Path(sys.prefix) / "share/nodewise/published",
)
FOLDER = next((folder.resolve() for folder in _FOLDERS if folder.is_dir()), _FOLDERS[-1])
STUDY = "study.yaml"

Text = Annotated[str, StringConstraints(min_length=1)]


class Claim(Frozen):
    """A claim of a published study, and the comparison of our points that decides it.

    Attributes:
        says: the claim in our words.
        where: where the study says it.
        compares: what is compared, in words.
        decided_by: which values agree with the claim, in words.
        value: the value of our points that is compared; `staleness` is relative to the number of
            other workers, and `saved` is the share of time by formulas of the study's own numbers.
        of: the points that are compared: for columns of the table `curves`, a value or a list of
            values. `faster` is whether the point is faster than one node.
        differ: the column in which the two points of a comparison differ.
        pairs: two values of this column each, of which the ratio is judged; without pairs, the
            value of each point itself is judged.
        above: the ratio must be larger.
        below: the ratio must be smaller.
        batches: which batches are judged: `all`; `best`, the one with the largest ratio; or `ends`:
            the ratio must be below `above` at the smallest batch, and above it at the largest.
        name: a name by which the study's `lead` can show the ratios.
    """

    says: Text
    where: Text
    compares: Text
    decided_by: Text
    value: Literal["throughput", "train_accuracy", "test_accuracy", "bytes", "staleness", "saved"]
    of: dict[str, Any] = Field(default_factory=dict)
    differ: Literal["nodes", "strategy", "pipeline"] = "strategy"
    pairs: list[tuple[int | str, int | str]] = Field(default_factory=list)
    above: float = -inf
    below: float = inf
    batches: Literal["all", "best", "ends"] = "all"
    name: Name | None = None


class Study(Frozen):
    """A published study: what it is and what it claims.

    Attributes:
        order: its place in the list of studies.
        title: its title.
        authors: its authors, and where they work.
        says: its main claim, in one sentence.
        year: when it was published, as far as known.
        link: the address of the paper; empty if no public one is known.
        lead: what repeating it showed, in one or two sentences with placeholders for numbers;
            `report.scoreboard` has their names, and claims with a `name` are placeholders, too.
        scoreboard: what is compared with each printed training: its time, or its speed-up.
        reading: how its numbers were read, as paragraphs.
        claims: what it claims.
    """

    order: int
    title: Text
    authors: Text
    says: Text
    year: str = ""
    link: str = Field("", pattern=r"^(https://\S+)?$")
    lead: str = ""
    scoreboard: Literal["time", "speedup"] = "speedup"
    reading: list[Text] = Field(default_factory=list)
    claims: list[Claim] = Field(default_factory=list)


def names() -> list[str]:
    """Return the names of the studies, in alphabetical order."""
    return sorted(path.parent.name for path in FOLDER.glob(f"*/{STUDY}"))


def studies() -> dict[str, Study]:
    """Return the published studies by name, in the order in which the site lists them.

    Raises:
        UserError: the file of a study is invalid.
    """
    adapter = TypeAdapter(Study)
    known = {name: read_yaml(adapter, FOLDER / name / STUDY) for name in names()}
    return dict(sorted(known.items(), key=lambda item: item[1].order))
