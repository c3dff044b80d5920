"""Pretrained weights: fetched and checked; or, if they cannot be had, told to be random.

manifest = prepare("resnet50_imagenet", registry=…, cache=…, mirror=…, source="any", out=…)
pretrained = read_weights(out / "manifest.json")

The cache is that of the datasets and is kept alike: `<name>/<file>` as it came, `<file>.origin`
beside it, a damaged one renamed to `<file>.bad`.
"""

import hashlib
import json
import logging
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Annotated, Literal, Protocol, Self

import yaml
from pydantic import Field, StringConstraints, TypeAdapter, ValidationError, model_validator

from nodewise.cells import Frozen, Name
from nodewise.datasets.facts import FileName, Sha256, Text, Url
from nodewise.datasets.fetching import (
    CHUNK,
    SLOWEST,
    CorruptError,
    Mirror,
    RealOrigin,
    UnobtainableError,
    parse_mirror,
)
from nodewise.datasets.folders import exclusive
from nodewise.datasets.progress import progress
from nodewise.datasets.web import TIMEOUT_S, Address, UnavailableError, Web
from nodewise.errors import UserError
from nodewise.files import atomic, write_json, write_text
from nodewise.misfits import first_misfit
from nodewise.records import WeightsSource

log = logging.getLogger(__name__)

MANIFEST = "manifest.json"

Digest = Annotated[str, StringConstraints(pattern=r"^(sha256:[0-9a-f]{64}|md5:[0-9a-f]{32})$")]


class Entry(Frozen):
    """One file of pretrained weights. `digest` is `algorithm:hexadecimal`, of `bytes` bytes."""

    title: Text
    licence: Text
    licence_url: Url
    file: FileName
    bytes: int = Field(ge=1)
    digest: Digest
    urls: tuple[Url, ...] = Field(min_length=1)


class Manifest(Frozen):
    """What was prepared: a file beside the manifest, or, by `reason`, none: random weights."""

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
    """Weights that a model starts from: where they came from, and their file unless random."""

    source: WeightsSource
    file: Path | None


class _Stream(Protocol):
    def read1(self, n: int, /) -> bytes: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class _Source:
    """A place that may have the file."""

    origin: RealOrigin
    shown: str
    open: Callable[[], _Stream]


def find(registry: Path, name: str) -> Entry:
    """Return the entry `name` of the registry file, YAML.

    Raises:
        UserError: the file cannot be read or does not fit, or there are no such weights.
    """
    try:
        told = yaml.safe_load(registry.read_bytes())
        entries = TypeAdapter(dict[Name, Entry]).validate_json(json.dumps(told, default=str))
    except OSError as error:
        raise UserError(f"{registry}: cannot be read ({error.strerror})") from error
    except yaml.YAMLError as error:
        raise UserError(f"{registry}: not YAML: {' '.join(str(error).split())}") from error
    except ValidationError as error:
        raise UserError(f"{registry}: {first_misfit(error)}") from error
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

    Sources in order: `cache`, `mirror`, the official addresses. If none has the file, the manifest
    says `random`, why, and so does one warning. `source` "official" forbids random in place of
    pretrained.

    Args:
        name: a key of the registry.
        registry: the registry file, see `find`.
        cache: folder of the files as they came, `<name>/<file>`.
        mirror: a folder or an http(s) prefix that has `<name>/<file>`; None for none.
        source: see above.
        out: folder to write to.

    Raises:
        UserError: an argument or the registry is wrong; the weights cannot be had and random ones
            are forbidden; a source has a corrupt file and no other has a right one; or a folder
            cannot be written.
    """
    entry = find(registry, name)
    place = parse_mirror(mirror) if mirror else None
    try:
        with exclusive(cache / name), exclusive(out):
            (out / MANIFEST).unlink(missing_ok=True)
            (out / entry.file).unlink(missing_ok=True)
            try:
                origin = _fetch(name, entry, cache / name / entry.file, place)
            except UnobtainableError as error:
                manifest = _random(name, entry, source, error)
            else:
                with atomic(out / entry.file) as copy:
                    shutil.copyfile(cache / name / entry.file, copy)
                    manifest = _manifest(name, entry, origin, sha256=_sha256(copy))
            write_json(out / MANIFEST, manifest.model_dump(mode="json"))
    except OSError as error:
        raise UserError(f"{error.filename or out}: {error.strerror or error}") from error
    return manifest


def read_weights(manifest: Path) -> Pretrained:
    """Return the weights that `manifest` describes, their file checked.

    Raises:
        UserError: the manifest or the file is missing, damaged, or does not fit the other.
    """
    try:
        told = Manifest.model_validate_json(manifest.read_bytes())
        file = manifest.parent / told.file if told.file else None
        if file and _sha256(file) != told.sha256:
            raise UserError(f"{file}: not what its manifest says; prepare the weights again")
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be read ({error.strerror})") from error
    except ValidationError as error:
        raise UserError(f"{manifest}: {first_misfit(error)}; prepare the weights again") from error
    return Pretrained(WeightsSource(name=told.name, origin=told.origin, sha256=told.sha256), file)


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
        file=entry.file if sha256 else None,
        sha256=sha256,
        reason=reason,
        licence=entry.licence,
        licence_url=entry.licence_url,
    )


def _random(name: str, entry: Entry, source: str, error: UnobtainableError) -> Manifest:
    """Return the manifest of random weights; or say what to do if they are not allowed.

    A corrupt file is never passed over in silence: somebody meant to use the real weights.
    """
    if error.corrupt:
        raise UserError(f"{name}: {error}; mend or remove the bad file, then run again") from error
    if source == "official":
        raise UserError(
            f"{name}: {error}; source 'official' forbids random in place of pretrained weights: "
            f"put the file into a folder DIR/{name} and set NODEWISE_DATASETS=DIR, or allow 'any'"
        ) from error
    log.warning("%s: random weights in place of pretrained ones: %s", name, error)
    return _manifest(name, entry, "random", reason=str(error))


def _fetch(name: str, entry: Entry, cached: Path, mirror: Mirror | None) -> RealOrigin:
    """Make sure that `cached` is there and right; return where it first came from.

    Raises:
        UnobtainableError: no source has the file.
        OSError: the cache cannot be read or written.
    """
    bad = cached.with_name(f"{cached.name}.bad")
    failures: list[str] = []
    if cached.exists():
        try:
            with cached.open("rb") as stream:
                _check(entry, *_read(stream, entry, lambda chunk: None))
            return _noted(cached)
        except CorruptError as error:
            cached.replace(bad)
            log.warning("%s: %s; set aside as %s", cached, error, bad.name)
    if bad.exists():
        failures.append(f"{bad} (a damaged copy)")
    corrupt = bad.exists()
    for source in _sources(name, entry, mirror):
        try:
            _download(source, entry, cached)
        except (UnavailableError, CorruptError) as error:
            corrupt = corrupt or isinstance(error, CorruptError)
            failures.append(f"{source.shown} ({error})")
        else:
            log.info("%s: fetched from %s", name, source.shown)
            return source.origin
    raise UnobtainableError(
        f"{entry.file} cannot be had; tried {'; '.join(failures)}", corrupt=corrupt
    )


def _note(cached: Path) -> Path:
    return cached.with_name(f"{cached.name}.origin")


def _noted(cached: Path) -> RealOrigin:
    """Return where a file of the cache came from; one laid there by hand counts as mirrored."""
    note = _note(cached)
    return "official" if note.exists() and note.read_text() == "official\n" else "mirror"


def _sources(name: str, entry: Entry, mirror: Mirror | None) -> Iterator[_Source]:
    if isinstance(mirror, Path):
        path = mirror / name / entry.file
        yield _Source("mirror", str(path), lambda: path.open("rb"))
    elif mirror is not None:
        # a mirror is one's own: no proxy in between
        yield _web_source("mirror", Web(proxies=False), mirror.below(name, entry.file))
    for url in entry.urls:
        yield _web_source("official", Web(proxies=True), Address(url))


def _web_source(origin: RealOrigin, web: Web, address: Address) -> _Source:
    return _Source(origin, address.url, lambda: web.open(address))


def _download(source: _Source, entry: Entry, cached: Path) -> None:
    """Copy the file from `source` to `cached`, if it is right.

    Raises:
        UnavailableError: it cannot be opened, breaks off or comes too slowly.
        CorruptError: it is another file.
    """
    try:
        stream = source.open()
    except OSError as error:
        raise UnavailableError(f"cannot be read ({error.strerror})") from error
    announced: int | None = getattr(stream, "length", None)
    with (
        closing(stream),
        atomic(cached) as temporary,
        temporary.open("wb") as file,
        progress(entry.file, entry.bytes) as advance,
    ):

        def keep(chunk: bytes) -> None:
            file.write(chunk)
            advance(len(chunk))

        size, hexdigest = _read(stream, entry, keep)
        if announced is not None and size < announced:
            raise UnavailableError(f"broke off after {size:,} of {announced:,} bytes")
        _check(entry, size, hexdigest)
        file.flush()
        # First the note, then the file: no file is ever there without its note.
        write_text(_note(cached), f"{source.origin}\n")


def _read(stream: _Stream, entry: Entry, keep: Callable[[bytes], object]) -> tuple[int, str]:
    """Give `keep` the chunks of `stream`; return how many bytes they are, and their digest.

    Raises:
        UnavailableError: it breaks off or comes too slowly.
        CorruptError: there is more than there should be.
    """
    digest = hashlib.new(entry.digest.partition(":")[0], usedforsecurity=False)
    size, began = 0, time.monotonic()
    while True:
        try:
            chunk = stream.read1(CHUNK)
        except (OSError, HTTPException) as error:
            raise UnavailableError(f"broke off ({type(error).__name__})") from error
        if not chunk:
            return size, digest.hexdigest()
        size += len(chunk)
        if size > entry.bytes:
            raise CorruptError(f"has more than the expected {entry.bytes:,} bytes")
        if time.monotonic() - began > TIMEOUT_S + size / SLOWEST:
            raise UnavailableError(f"slower than {SLOWEST} bytes a second")
        digest.update(chunk)
        keep(chunk)


def _check(entry: Entry, size: int, hexdigest: str) -> None:
    """Raise CorruptError unless that is the right file."""
    algorithm, _, expected = entry.digest.partition(":")
    if hexdigest != expected:
        raise CorruptError(
            f"has {size:,} bytes with {algorithm.upper()} {hexdigest}, "
            f"expected {entry.bytes:,} with {expected}"
        )


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
