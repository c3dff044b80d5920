"""Pretrained weights: fetch and check them. If they cannot be had, random weights are recorded.

manifest = prepare("resnet50_imagenet", registry=…, cache=…, mirror=…, source="any", out=…)
pretrained = read_weights(out / "manifest.json")
"""

import shutil
from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, StringConstraints

from nodewise.core.cell import Frozen, Line
from nodewise.core.errors import UserError
from nodewise.core.files import atomic, check_writable, file_sha256, write_json
from nodewise.core.schema import read_json
from nodewise.data.fetch import Fetcher, FileName, RemoteFile, Source, UnobtainableError, Url
from nodewise.data.registry import find
from nodewise.results.record import WeightsSource

MANIFEST = "manifest.json"


class WeightsFile(RemoteFile):
    """A file of weights, identified by the checksum that its publisher provides."""

    checksum: Annotated[str, StringConstraints(pattern=r"^(md5:[0-9a-f]{32}|sha256:[0-9a-f]{64})$")]
    urls: tuple[Url, ...] = Field(min_length=1)

    @property
    def digest(self) -> str:
        """The checksum."""
        return self.checksum


class Entry(Frozen):
    """One set of pretrained weights."""

    title: Line
    licence: Line
    licence_url: Url
    file: WeightsFile


class Manifest(WeightsSource):
    """What was prepared: a file beside the manifest, or random weights for the given `reason`."""

    file: FileName | None = None
    reason: str | None = None


class Pretrained(NamedTuple):
    """The weights that a model starts from: their source, and their file unless they are random."""

    source: WeightsSource
    file: Path | None


def prepare(
    name: str, *, registry: Path, cache: Path, mirror: str | None, source: Source, out: Path
) -> Manifest:
    """Fetch and check the weights `name`; write their file and then `manifest.json` to `out`.

    The arguments and sources are those of `data.prepare`. If no source has the file, the manifest
    says `random` and why, and a warning is logged.

    Raises:
        UserError: an argument or the registry is wrong; the weights cannot be had and `source` is
            "official"; a source has a corrupt file and no other has a correct one.
        OSError: a folder cannot be written.
    """
    entry = find(registry, name, Entry)
    copy = out / entry.file.name
    check_writable(out / MANIFEST)
    (out / MANIFEST).unlink(missing_ok=True)
    copy.unlink(missing_ok=True)
    try:
        fetched = Fetcher(name, cache, mirror).fetch(entry.file)
    except UnobtainableError as error:
        replacement = "random weights in place of pretrained ones"
        error.check_replaceable(name, replacement, allowed=source == "any")
        manifest = Manifest(name=name, origin="random", reason=str(error))
    else:
        with atomic(copy) as temporary:
            shutil.copyfile(fetched.path, temporary)
        manifest = Manifest(
            name=name, origin=fetched.origin, file=copy.name, sha256=file_sha256(copy)
        )
    write_json(out / MANIFEST, manifest.model_dump(mode="json"))
    return manifest


def read_weights(manifest: Path) -> Pretrained:
    """Return the weights that `manifest` describes, after checking their file.

    Raises:
        UserError: the manifest is missing or damaged, or the file is another one.
        OSError: the file cannot be read.
    """
    prepared = read_json(Manifest, manifest, "remove the file to have the weights prepared again")
    file = manifest.parent / prepared.file if prepared.file else None
    if file and file_sha256(file) != prepared.sha256:
        raise UserError(
            f"{file}: not what its manifest says; remove {manifest} to have it prepared again"
        )
    return Pretrained(
        WeightsSource(name=prepared.name, origin=prepared.origin, sha256=prepared.sha256), file
    )
