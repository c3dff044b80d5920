"""Read which studies were published, and what they claim, from data/published.

A study is a folder with a file study.yaml. The README there explains its files. Their numbers are
read by `nodewise.results.published`.
"""

import sys
from importlib.resources import files
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
    """A claim of a published study.

    Attributes:
        says: the claim in our words.
        where: where the study says it.
        compares: what is compared, in words.
        decided_by: which values agree with the claim, in words.
        rule: the name of the rule, one of `report.claim_rules.CLAIM_RULES`.
        settings: the arguments of the rule.
        unit: the unit of the values that the rule compares.
        name: a name by which the study's `lead` can show these values.
    """

    says: Text
    where: Text
    compares: Text
    decided_by: Text
    rule: Text
    settings: dict[str, Any] = Field(default_factory=dict)
    unit: Literal["×", "share"] = "×"
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
