"""Get the files of a dataset or of weights from the cache, a mirror or the official address.

Every file is checked by its digest, whatever its source. The cache stores each file unchanged as
`<folder>/<file>`, and its origin ("mirror" or "official") in `<file>.origin` next to it. A damaged
file of the cache is renamed to `<file>.bad`. Mirrors are never written to.
"""

import gzip
import hashlib
import logging
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal
from urllib.parse import urlsplit

from filelock import FileLock
from pydantic import AfterValidator, Field, StringConstraints

from nodewise import __version__
from nodewise.core.cell import Frozen, Name
from nodewise.core.files import atomic, write_text
from nodewise.core.mirror import Address, Mirror
from nodewise.core.progress import progress

log = logging.getLogger(__name__)

RealOrigin = Literal["mirror", "official"]

CHUNK = 2**16
MAX_CONTENT_BYTES = 2**30  # per file
TIMEOUT_S = 10.0  # for a connection, and for the next bytes of a download


def _plain_web_address(url: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc:
        raise ValueError("must be an http(s) address without a user name")
    return url


# No leading dot and no slash, so a file stays in its folder and is never hidden.
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, AfterValidator(_plain_web_address)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=120, pattern=r"^[^\n]+$")]


class RemoteFile(Frozen):
    """A file on a server, with the size and digest of its content.

    If `gzipped`, the content is the decompressed file, otherwise the file itself. In the cache and
    in a mirror the file is in `folder`. By default, this is the folder of the dataset or weights
    that it belongs to.
    """

    gzipped: ClassVar[bool] = False
    name: FileName
    folder: Name | None = None
    content_bytes: int = Field(ge=1, le=MAX_CONTENT_BYTES)
    urls: tuple[Url, ...] = ()

    @property
    def digest(self) -> tuple[str, str]:
        """Digest of the content: the name of the algorithm and the hexadecimal digits."""
        raise NotImplementedError


class UnavailableError(Exception):
    """A source does not have the file or cannot be reached; the message says why."""


class CorruptError(Exception):
    """A source has the file, but with wrong content; the message says what is wrong."""


class UnobtainableError(Exception):
    """No source has the right file. The message names it and says what was tried.

    `corrupt` is true if a source has the file with wrong content.
    """

    def __init__(self, text: str, *, corrupt: bool) -> None:
        super().__init__(text)
        self.corrupt = corrupt


@dataclass(frozen=True)
class Fetched:
    """A checked file in the cache, and where it originally came from."""

    path: Path
    origin: RealOrigin


class Fetcher:
    """Fetches files into a cache. A source that failed for a file is not tried again for it."""

    def __init__(self, name: str, cache: Path, mirror: Mirror | None) -> None:
        """Create a fetcher.

        Args:
            name: name of the dataset or weights that the files belong to, shown in messages. It is
                also the default folder of the files.
            cache: folder of the cache.
            mirror: folder or web address to fetch from before the official address; None for none.
        """
        self._name = name
        self._cache = cache
        self._mirror = mirror
        self._failed: dict[tuple[str, Mirror], UnavailableError | CorruptError] = {}
        self._silent: set[str] = set()  # servers that did not answer

    def fetch(self, file: RemoteFile, *, near: bool = False) -> Fetched:
        """Return `file` from the first source that has the right content.

        With `near`, only the cache and the mirror are tried.

        Raises:
            UnobtainableError: no source has it.
            OSError: the cache cannot be read or written.
        """
        folder = self._cache / self._folder(file)
        folder.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / ".lock"):  # datasets are prepared in parallel and may share files
            return self._fetch(file, folder / file.name, near=near)

    def _folder(self, file: RemoteFile) -> str:
        return file.folder or self._name

    def _fetch(self, file: RemoteFile, cached: Path, *, near: bool) -> Fetched:
        for leftover in cached.parent.glob(f".{cached.name}.*.tmp"):
            leftover.unlink()  # left by a killed download; the lock excludes other writers
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
        for origin, source in self._sources(file, near=near):
            try:
                self._take(source, file, cached, origin)
            except (UnavailableError, CorruptError) as error:
                corrupt = corrupt or isinstance(error, CorruptError)
                failures.append(f"{source} ({error})")
            else:
                return Fetched(cached, origin)
        tried = f"; tried {'; '.join(failures)}" if failures else ": there is no mirror"
        name = f"{file.folder}/{file.name}" if file.folder else file.name
        raise UnobtainableError(f"{name} is not available{tried}", corrupt=corrupt)

    def _sources(self, file: RemoteFile, *, near: bool) -> Iterator[tuple[RealOrigin, Mirror]]:
        if isinstance(self._mirror, Path):
            yield "mirror", self._mirror / self._folder(file) / file.name
        elif self._mirror is not None:
            yield "mirror", self._mirror.below(self._folder(file), file.name)
        for url in () if near else file.urls:
            yield "official", Address(url)

    def _take(self, source: Mirror, file: RemoteFile, cached: Path, origin: RealOrigin) -> None:
        """Copy `file` from `source` into the cache; log and remember a failure.

        Raises:
            UnavailableError: the source does not have the file.
            CorruptError: the source has a file with other content.
        """
        if (file.name, source) in self._failed:
            raise self._failed[file.name, source]
        try:
            with atomic(cached) as temporary:
                if isinstance(source, Address):
                    self._download(source, file, temporary)
                else:
                    _copy(source, temporary)
                _check(temporary, file)
                # the origin is written before the file, so that every fetched file has one
                write_text(_origin_path(cached), f"{origin}\n")
        except (UnavailableError, CorruptError) as error:
            self._failed[file.name, source] = error
            log.warning("%s: %s: %s", self._name, source, error)
            raise
        log.info("%s/%s: fetched from %s", self._folder(file), file.name, source)

    def _download(self, address: Address, file: RemoteFile, to: Path) -> None:
        """Download the file at `address`. Supports netrc files and proxies."""
        import requests  # slow to import

        server = urlsplit(address.url).netloc
        if server in self._silent:
            raise UnavailableError("did not answer a moment ago")
        # a gzip file has to arrive as it is
        headers = {"User-Agent": f"nodewise/{__version__}", "Accept-Encoding": "identity"}
        label = f"{self._folder(file)}/{file.name}"
        try:
            with (
                progress(label, None if file.gzipped else file.content_bytes) as advance,
                requests.get(
                    address.url,
                    auth=address.auth,
                    headers=headers,
                    timeout=TIMEOUT_S,
                    stream=True,
                ) as response,
                to.open("wb") as copy,
            ):
                response.raise_for_status()
                for chunk in response.iter_content(CHUNK):
                    copy.write(chunk)
                    advance(len(chunk))
                    if copy.tell() > _most_bytes(file):
                        raise CorruptError("has more bytes than expected")
        except requests.HTTPError as error:
            raise UnavailableError(f"answers HTTP {error.response.status_code}") from error
        except requests.RequestException as error:
            # without the error's text, which may contain credentials, such as those of a proxy
            reason = f"cannot be downloaded ({type(error).__name__})"
            if isinstance(error, requests.exceptions.ChunkedEncodingError):
                reason = "broke off"
            elif isinstance(error, requests.Timeout):
                reason = f"no answer within {TIMEOUT_S:.0f} s"
            elif isinstance(error, requests.ConnectionError):
                reason = "cannot be reached"
            if isinstance(error, requests.Timeout | requests.ConnectionError):
                self._silent.add(server)
            raise UnavailableError(reason) from None


def _copy(source: Path, to: Path) -> None:
    try:
        if not source.is_file():
            raise UnavailableError("no such file")
        file = source.open("rb")
    except OSError as error:
        raise UnavailableError(f"cannot be read ({error.strerror})") from error
    with file, to.open("wb") as copy:
        shutil.copyfileobj(file, copy)


def _most_bytes(file: RemoteFile) -> int:
    """Return the largest possible size of `file` in bytes; gzip may add a little."""
    size = file.content_bytes
    return size + size // 100 + 2**16 if file.gzipped else size


def _check(path: Path, file: RemoteFile) -> None:
    """Check the size and digest of the content of `path` against those of `file`.

    Raises:
        CorruptError: they differ.
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
    """Return the origin of a file in the cache. Files placed there by hand count as mirrored."""
    path = _origin_path(cached)
    noted = path.read_text(encoding="ascii", errors="replace").strip() if path.exists() else ""
    return "official" if noted == "official" else "mirror"
