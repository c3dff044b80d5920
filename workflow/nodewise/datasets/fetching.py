"""Getting the files of a dataset: from the cache, a mirror or the official address, checked always.

The cache holds every file as it came (`<dataset>/<file>`), and beside it `<file>.origin`: "mirror"
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

from nodewise.datasets.progress import progress
from nodewise.datasets.registry import SourceFile
from nodewise.datasets.web import TIMEOUT_S, Address, UnavailableError, Web, parse_address
from nodewise.errors import UserError
from nodewise.files import atomic, write_text

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

    def __init__(self, name: str, failures: list[str], *, corrupt: bool) -> None:
        super().__init__(f"{name} cannot be had; tried {'; '.join(failures)}")
        self.corrupt = corrupt


@dataclass(frozen=True)
class Fetched:
    """A checked file: what is inside its wrapping, and where it first came from."""

    content: bytes
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
    """Fetches the files of one dataset into its folder of the cache."""

    def __init__(self, dataset: str, folder: Path, mirror: Mirror | None) -> None:
        self._dataset = dataset
        self._folder = folder
        self._mirror = mirror
        self._direct = Web(proxies=False)  # a mirror is one's own: no proxy in between
        self._outside = Web(proxies=True)

    def fetch(self, file: SourceFile, size: int) -> Fetched:
        """Return `file`, whose content has `size` bytes, from the first source that has it right.

        Raises:
            UnobtainableError: no source has it.
            OSError: the cache cannot be read or written.
        """
        cached, bad = self._folder / file.name, self._folder / f"{file.name}.bad"
        failures: list[str] = []
        if cached.exists():
            try:
                return Fetched(_content(cached, file, size), _read_origin(cached))
            except CorruptError as error:
                cached.replace(bad)
                log.warning("%s: %s; set aside as %s", cached, error, bad.name)
        if bad.exists():
            failures.append(f"{bad} (a damaged copy)")
        corrupt = bad.exists()
        for source in self._sources(file):
            try:
                return self._take(source, file, size, cached)
            except (UnavailableError, CorruptError) as error:
                corrupt = corrupt or isinstance(error, CorruptError)
                failures.append(f"{source.shown} ({error})")
                log.warning("%s: %s: %s", self._dataset, source.shown, error)
        raise UnobtainableError(file.name, failures, corrupt=corrupt)

    def _sources(self, file: SourceFile) -> Iterator[_Source]:
        if isinstance(self._mirror, Path):
            path = self._mirror / self._dataset / file.name
            yield _Source("mirror", str(path), lambda: _open_file(path))
        elif self._mirror is not None:
            address = self._mirror.below(self._dataset, file.name)
            yield _web_source("mirror", self._direct, address)
        for url in file.urls:
            yield _web_source("official", self._outside, Address(url))

    def _take(self, source: _Source, file: SourceFile, size: int, cached: Path) -> Fetched:
        """Copy `file` from `source` into the cache, if it is right."""
        stream, length = source.open()
        label = f"{self._dataset}/{file.name}"
        with closing(stream), atomic(cached) as temporary, progress(label, length) as advance:
            _copy(stream, length, temporary, _packed_limit(size), advance)
            content = _content(temporary, file, size)
            # First the note, then the file: no file is ever there without its note.
            write_text(_origin_path(cached), f"{source.origin}\n")
        log.info("%s: fetched from %s", label, source.shown)
        return Fetched(content, source.origin)


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


def _packed_limit(size: int) -> int:
    """Return the most bytes that gzip can make of `size`, with some room."""
    return size + size // 100 + 2**16


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


def _content(path: Path, file: SourceFile, size: int) -> bytes:
    """Return what is inside the gzip file `path`.

    Raises:
        CorruptError: it is not the content that the registry tells.
    """
    try:
        with gzip.open(path) as packed:
            content = packed.read(size + 1)  # the one byte more makes gzip check its sum
    except EOFError as error:
        raise CorruptError("its gzip data breaks off") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise CorruptError("is not sound gzip data") from error
    if len(content) > size:
        raise CorruptError(f"unpacks to more than the expected {size:,} bytes")
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.content_sha256:
        raise CorruptError(
            f"unpacks to {len(content):,} bytes with SHA-256 {digest}, "
            f"expected {size:,} with {file.content_sha256}"
        )
    return content


def _origin_path(cached: Path) -> Path:
    return cached.with_name(f"{cached.name}.origin")


def _read_origin(cached: Path) -> RealOrigin:
    """Return where a file of the cache came from; one laid there by hand counts as mirrored."""
    path = _origin_path(cached)
    noted = path.read_text(encoding="ascii", errors="replace").strip() if path.exists() else ""
    return "official" if noted == "official" else "mirror"
