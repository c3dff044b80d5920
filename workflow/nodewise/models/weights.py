"""Pretrained weights: fetch and check them. If they cannot be had, random weights are recorded.

manifest = prepare("resnet50_imagenet", registry=…, cache=…, mirror=…, source="any", out=…)
pretrained = read_weights(out / "manifest.json")

The cache is that of the datasets and has the same structure: `<name>/<file>` is the original file,
`<file>.origin` beside it says where it came from, and a damaged file is renamed to `<file>.bad`.
"""

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, TypeAdapter, model_validator

from nodewise.core.cell import Frozen, Name
from nodewise.core.errors import UserError
from nodewise.core.fetch import (
    Fetched,
    Fetcher,
    FileName,
    RemoteFile,
    Sha256,
    Text,
    UnobtainableError,
    Url,
)
from nodewise.core.files import atomic, file_sha256, write_json
from nodewise.core.mirror import parse_mirror
from nodewise.core.schema import read_json, read_yaml
from nodewise.results.record import WeightsSource

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"


class WeightsFile(RemoteFile):
    """A file of weights, identified by the digest that its publisher provides."""

    content_sha256: Sha256 | None = None
    content_md5: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")] | None = None
    urls: tuple[Url, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _one_digest(self) -> Self:
        if (self.content_sha256 is None) == (self.content_md5 is None):
            raise ValueError("give either content_sha256 or content_md5")
        return self

    @property
    def digest(self) -> tuple[str, str]:
        """The name of the digest that is given, and its value."""
        if self.content_sha256:
            return "SHA-256", self.content_sha256
        return "MD5", self.content_md5 or ""


class Entry(Frozen):
    """One set of pretrained weights."""

    title: Text
    licence: Text
    licence_url: Url
    file: WeightsFile


class Manifest(Frozen):
    """What was prepared: a file beside the manifest, or random weights for the given `reason`."""

    name: Name
    title: str
    origin: Literal["official", "mirror", "random"]
    file: FileName | None
    sha256: Sha256 | None
    reason: str | None
    licence: str
    licence_url: str

    @model_validator(mode="after")
    def _one_story(self) -> Self:
        random = self.origin == "random"
        if not random == (self.file is None) == (self.sha256 is None) == (self.reason is not None):
            raise ValueError("random weights have a reason; others have a file and its sha256")
        return self


@dataclass(frozen=True)
class Pretrained:
    """The weights that a model starts from: their source, and their file unless they are random."""

    source: WeightsSource
    file: Path | None


def find(registry: Path, name: str) -> Entry:
    """Return the entry `name` of the registry, a YAML file.

    Raises:
        UserError: the file cannot be read or is invalid, or it has no such weights.
    """
    entries = read_yaml(TypeAdapter(dict[Name, Entry]), registry)
    if name not in entries:
        allowed = ", ".join(sorted(entries))
        raise UserError(f"{name!r} are no weights of {registry}; allowed: {allowed}")
    return entries[name]


def prepare(
    name: str,
    *,
    registry: Path,
    cache: Path,
    mirror: str | None,
    source: Literal["any", "official"],
    out: Path,
) -> Manifest:
    """Fetch and check the weights `name`; write their file and then `manifest.json` to `out`.

    The sources are, in this order, `cache`, `mirror` and the official URLs. If none has the file,
    the manifest says `random` and why, and a warning is logged.

    Args:
        name: a key of the registry.
        registry: the registry file, see `find`.
        cache: the folder of the original files, `<name>/<file>`.
        mirror: a folder or an http(s) prefix that contains `<name>/<file>`, or None.
        source: "official" forbids random weights in place of pretrained ones.
        out: the folder to write to.

    Raises:
        UserError: an argument or the registry is wrong; the weights cannot be had and random ones
            are forbidden; a source has a corrupt file and no other has a correct one; or a folder
            cannot be written.
    """
    entry = find(registry, name)
    fetcher = Fetcher(name, cache, parse_mirror(mirror) if mirror else None)
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / MANIFEST).unlink(missing_ok=True)
        (out / entry.file.name).unlink(missing_ok=True)
        try:
            fetched = fetcher.fetch(entry.file)
        except UnobtainableError as error:
            manifest = _random(name, entry, source, error)
        else:
            manifest = _copied(name, entry, fetched, out / entry.file.name)
        write_json(out / MANIFEST, manifest.model_dump(mode="json"))
    except OSError as error:
        raise UserError(f"{error.filename or out}: {error.strerror or error}") from error
    return manifest


def read_weights(manifest: Path) -> Pretrained:
    """Return the weights that `manifest` describes, after checking their file.

    Raises:
        UserError: the manifest or the file is missing or damaged, or they do not match.
    """
    prepared = read_json(Manifest, manifest, "prepare the weights again")
    file = manifest.parent / prepared.file if prepared.file else None
    try:
        if file and file_sha256(file) != prepared.sha256:
            raise UserError(f"{file}: not what its manifest says; prepare the weights again")
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from error
    return Pretrained(
        WeightsSource(name=prepared.name, origin=prepared.origin, sha256=prepared.sha256), file
    )


def _manifest(
    name: str,
    entry: Entry,
    origin: Literal["official", "mirror", "random"],
    *,
    sha256: str | None = None,
    reason: str | None = None,
) -> Manifest:
    return Manifest(
        name=name,
        title=entry.title,
        origin=origin,
        file=entry.file.name if sha256 else None,
        sha256=sha256,
        reason=reason,
        licence=entry.licence,
        licence_url=entry.licence_url,
    )


def _copied(name: str, entry: Entry, fetched: Fetched, to: Path) -> Manifest:
    with atomic(to) as copy:
        shutil.copyfile(fetched.path, copy)
        return _manifest(name, entry, fetched.origin, sha256=file_sha256(copy))


def _random(name: str, entry: Entry, source: str, error: UnobtainableError) -> Manifest:
    """Return the manifest of random weights, or raise an error with advice if they are not allowed.

    A corrupt file is always an error: somebody intended to use the real weights.

    Raises:
        UserError: a file is corrupt, or random weights are forbidden.
    """
    if error.corrupt:
        raise UserError(f"{name}: {error}; fix or remove the bad file, then run again") from error
    if source == "official":
        raise UserError(
            f"{name}: {error}; source 'official' forbids random in place of pretrained weights: "
            f"put the file into a folder DIR/{name} and set NODEWISE_DATASETS=DIR, or allow 'any'"
        ) from error
    log.warning("%s: random weights in place of pretrained ones: %s", name, error)
    return _manifest(name, entry, "random", reason=str(error))
