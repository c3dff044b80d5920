"""Getting the files of a dataset: from the cache, a mirror or the official address, checked always.

The cache holds every file as it came (`<folder>/<file>`), and beside it `<file>.origin`: "mirror"
or "official". A damaged file of the cache is renamed to `<file>.bad`; mirrors are only read.
"""

import gzip
import hashlib
import logging
import re
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Literal, Protocol

from nodewise.datasets.facts import RemoteFile
from nodewise.datasets.folders import exclusive
from nodewise.datasets.web import TIMEOUT_S, Address, UnavailableError, Web, parse_address
from nodewise.errors import UserError
from nodewise.files import atomic, write_text
from nodewise.progress import progress

log = logging.getLogger(__name__)

RealOrigin = Literal["mirror", "official"]
Mirror = Path | Address

CHUNK = 2**16
SLOWEST = 1024  # bytes a second; below it for TIMEOUT_S, a download is given up


class CorruptError(Exception):
    """A source has the file, but with the wrong content; the text says what is wrong."""


class UnobtainableError(Exception):
    """No source has the right file. The text names it and tells what was tried.

    `corrupt` is true if a source has it with the wrong content.
    """

    def __init__(self, text: str, *, corrupt: bool) -> None:
        super().__init__(text)
        self.corrupt = corrupt


@dataclass(frozen=True)
class Fetched:
    """A checked file of the cache, and where it first came from."""

    path: Path
    origin: RealOrigin


class _Stream(Protocol):
    def read1(self, n: int, /) -> bytes: ...
    def close(self) -> None: ...


@dataclass(frozen=True)
class _Source:
    """A place that may have the file. `open` gives its bytes and, if known, how many they are."""

    origin: RealOrigin
    shown: str
    open: Callable[[], tuple[_Stream, int | None]]


def parse_mirror(text: str) -> Mirror:
    """Return the folder or the web address that `text` names.

    Raises:
        UserError: another scheme than http(s), or no valid address.
    """
    scheme = re.match(r"([A-Za-z][A-Za-z0-9+.-]*):/", text)
    if scheme is None:
        return Path(text)
    if scheme[1].lower() not in ("http", "https"):
        raise UserError(
            f"dataset mirror: addresses of {scheme[1]} are not supported; "
            "allowed: a folder, http://…, https://…"
        )
    try:
        return parse_address(text)
    except ValueError as error:
        raise UserError(f"dataset mirror: the {scheme[1]} address {error}") from error


class Fetcher:
    """Fetches files into a cache. A source that failed is not asked again for the same file."""

    def __init__(self, name: str, cache: Path, mirror: Mirror | None) -> None:
        """`name` is what the files belong to: shown to people, and their folder by default."""
        self._name = name
        self._cache = cache
        self._mirror = mirror
        self._direct = Web(proxies=False)  # a mirror is one's own: no proxy in between
        self._outside = Web(proxies=True)
        self._failed: dict[tuple[str, str], UnavailableError | CorruptError] = {}

    def fetch(self, file: RemoteFile, *, near: bool = False) -> Fetched:
        """Return `file` from the first source that has it right; `near`: cache or mirror alone.

        Raises:
            UnobtainableError: no source has it.
            OSError: the cache cannot be read or written.
        """
        with exclusive(self._cache / self._folder(file)) as folder:
            return self._fetch(file, folder / file.name, near=near)

    def _folder(self, file: RemoteFile) -> str:
        return file.folder or self._name

    def _fetch(self, file: RemoteFile, cached: Path, *, near: bool) -> Fetched:
        bad = cached.with_name(f"{cached.name}.bad")
        failures: list[str] = []
        if cached.exists():
            try:
                _check(cached, file)
                return Fetched(cached, _read_origin(cached))
            except CorruptError as error:
                cached.replace(bad)
                log.warning("%s: %s; set aside as %s", cached, error, bad.name)
        if bad.exists():
            failures.append(f"{bad} (a damaged copy)")
        corrupt = bad.exists()
        for source in self._sources(file, near=near):
            try:
                return self._take(source, file, cached)
            except (UnavailableError, CorruptError) as error:
                corrupt = corrupt or isinstance(error, CorruptError)
                failures.append(f"{source.shown} ({error})")
        tried = f"; tried {'; '.join(failures)}" if failures else ": there is no mirror"
        shown = f"{file.folder}/{file.name}" if file.folder else file.name
        raise UnobtainableError(f"{shown} cannot be had{tried}", corrupt=corrupt)

    def _sources(self, file: RemoteFile, *, near: bool) -> Iterator[_Source]:
        if isinstance(self._mirror, Path):
            path = self._mirror / self._folder(file) / file.name
            yield _Source("mirror", str(path), lambda: _open_file(path))
        elif self._mirror is not None:
            address = self._mirror.below(self._folder(file), file.name)
            yield _web_source("mirror", self._direct, address)
        for url in () if near else file.urls:
            yield _web_source("official", self._outside, Address(url))

    def _take(self, source: _Source, file: RemoteFile, cached: Path) -> Fetched:
        """Copy `file` from `source` into the cache, if it is right; note and tell if it is not."""
        key = (file.name, source.shown)
        if key in self._failed:
            raise self._failed[key]
        label = f"{self._folder(file)}/{file.name}"
        try:
            stream, length = source.open()
            with closing(stream), atomic(cached) as temporary, progress(label, length) as advance:
                _copy(stream, length, temporary, _most_bytes(file), advance)
                _check(temporary, file)
                # First the note, then the file: no file is ever there without its note.
                write_text(_origin_path(cached), f"{source.origin}\n")
        except (UnavailableError, CorruptError) as error:
            self._failed[key] = error
            log.warning("%s: %s: %s", self._name, source.shown, error)
            raise
        log.info("%s: fetched from %s", label, source.shown)
        return Fetched(cached, source.origin)


def _web_source(origin: RealOrigin, web: Web, address: Address) -> _Source:
    def open_() -> tuple[_Stream, int | None]:
        response = web.open(address)
        return response, response.length

    return _Source(origin, address.url, open_)


def _open_file(path: Path) -> tuple[_Stream, int | None]:
    try:
        if not path.is_file():
            raise UnavailableError("no such file")
        return path.open("rb"), path.stat().st_size
    except OSError as error:
        raise UnavailableError(f"cannot be read ({error.strerror})") from error


def _most_bytes(file: RemoteFile) -> int:
    """Return the most bytes that `file` can have: gzip, at its worst, adds a little."""
    size = file.content_bytes
    return size + size // 100 + 2**16 if file.gzipped else size


def _copy(
    stream: _Stream, length: int | None, to: Path, limit: int, advance: Callable[[int], None]
) -> None:
    """Write the bytes of `stream` to `to`.

    Raises:
        CorruptError: there are more than `limit`.
        UnavailableError: fewer came than the announced `length`, or they come too slowly.
        OSError: `to` cannot be written.
    """
    if length is not None and length > limit:
        raise CorruptError(f"has {length:,} bytes, expected at most {limit:,}")
    received, began = 0, time.monotonic()
    with to.open("wb") as file:
        while chunk := _read(stream):
            file.write(chunk)
            received += len(chunk)
            advance(len(chunk))
            if received > limit:
                raise CorruptError(f"has more than the expected {limit:,} bytes")
            if time.monotonic() - began > TIMEOUT_S + received / SLOWEST:
                raise UnavailableError(f"slower than {SLOWEST} bytes a second")
    if length is not None and received < length:
        raise UnavailableError(f"broke off after {received:,} of {length:,} bytes")


def _read(stream: _Stream) -> bytes:
    try:
        return stream.read1(CHUNK)
    except (OSError, HTTPException) as error:
        raise UnavailableError(f"broke off ({type(error).__name__})") from error


def _check(path: Path, file: RemoteFile) -> None:
    """Compare the content of `path` with what is known of `file`.

    Raises:
        CorruptError: it is another.
    """
    does = "unpacks to" if file.gzipped else "has"
    algorithm, expected = file.digest
    digest, size = hashlib.new(algorithm.replace("-", ""), usedforsecurity=False), 0
    try:
        with gzip.open(path) if file.gzipped else path.open("rb") as content:
            while chunk := content.read(CHUNK):
                digest.update(chunk)
                size += len(chunk)
                if size > file.content_bytes:
                    raise CorruptError(
                        f"{does} more than the expected {file.content_bytes:,} bytes"
                    )
    except EOFError as error:
        raise CorruptError("its gzip data breaks off") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise CorruptError("is not sound gzip data") from error
    if digest.hexdigest() != expected:
        raise CorruptError(
            f"{does} {size:,} bytes with {algorithm} {digest.hexdigest()}, "
            f"expected {file.content_bytes:,} with {expected}"
        )


def _origin_path(cached: Path) -> Path:
    return cached.with_name(f"{cached.name}.origin")


def _read_origin(cached: Path) -> RealOrigin:
    """Return where a file of the cache came from; one laid there by hand counts as mirrored."""
    path = _origin_path(cached)
    noted = path.read_text(encoding="ascii", errors="replace").strip() if path.exists() else ""
    return "official" if noted == "official" else "mirror"
