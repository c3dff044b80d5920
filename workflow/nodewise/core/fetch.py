"""Get the files of a dataset or of weights from the cache, a mirror or the official address.

pooch downloads a file under a temporary name, checks its digest and moves it into the cache, as
`<origin>/<folder>/<file>`. A gzipped file is stored unpacked. Mirrors are never written to.
"""

import gzip
import logging
import shutil
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Annotated, ClassVar, Literal
from urllib.parse import unquote, urlsplit, urlunsplit

from filelock import FileLock
from pydantic import AfterValidator, Field, StringConstraints

from nodewise import __version__
from nodewise.core.cell import Frozen, Name
from nodewise.core.errors import UserError
from nodewise.core.progress import progress

log = logging.getLogger(__name__)

RealOrigin = Literal["mirror", "official"]

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
    def digest(self) -> str:
        """Digest of the content: the name of the algorithm, a colon and hexadecimal digits."""
        raise NotImplementedError


@dataclass(frozen=True)
class Mirror:
    """A folder or web address that has `<folder>/<file>`. Its credentials are never printed."""

    place: str
    auth: tuple[bytes, bytes] | None = field(default=None, repr=False)


def parse_mirror(text: str) -> Mirror:
    """Parse the folder or the http(s) address of a mirror, which may have credentials.

    Raises:
        UserError: the address is not a usable prefix. The message does not contain `text`.
    """
    if ":/" not in text:
        return Mirror(text)
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment:
        raise UserError(
            "NODEWISE_DATASETS: not a usable address; allowed: a folder, or an http(s) address "
            "without query and fragment"
        )
    auth = None
    if "@" in parts.netloc:
        user, password = (unquote(x or "").encode() for x in (parts.username, parts.password))
        auth = (user, password)
    return Mirror(urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2])), auth)


class UnobtainableError(Exception):
    """No source has the right file. The message names it and says what was tried.

    `corrupt` is true if a source has the file with wrong content.
    """

    def __init__(self, text: str, *, corrupt: bool) -> None:
        super().__init__(text)
        self.corrupt = corrupt

    def as_user_error(self, name: str) -> UserError:
        """Return the error for users, with what to do, if nothing may replace the file."""
        advice = (
            "fix or remove the bad file, then run again"
            if self.corrupt
            else "put it into a folder DIR under this path and set NODEWISE_DATASETS=DIR, or allow "
            "source 'any'"
        )
        return UserError(f"{name}: {self}; {advice}")


@dataclass(frozen=True)
class Fetched:
    """A checked file in the cache, and where it originally came from."""

    path: Path
    origin: RealOrigin


@dataclass(frozen=True)
class Fetcher:
    """Fetches files into a cache.

    Args:
        name: name of the dataset or weights that the files belong to, shown in messages. It is also
            the default folder of the files.
        cache: folder of the cache.
        mirror: what to fetch from before the official address; None for none.
    """

    name: str
    cache: Path
    mirror: Mirror | None

    def fetch(self, file: RemoteFile, *, near: bool = False) -> Fetched:
        """Return `file` from the first source that has the right content.

        With `near`, only the cache and the mirror are tried.

        Raises:
            UnobtainableError: no source has it.
            OSError: the cache cannot be read or written.
        """
        import pooch

        algorithm, _, digits = file.digest.partition(":")
        folder = file.folder or self.name
        name = file.name.removesuffix(".gz") if file.gzipped else file.name
        cached: dict[RealOrigin, Path] = {
            "mirror": self.cache / "mirror" / folder / name,
            "official": self.cache / "official" / folder / name,
        }
        sources: list[tuple[RealOrigin, str]] = []
        if self.mirror is not None:
            sources.append(("mirror", f"{self.mirror.place.rstrip('/')}/{folder}/{file.name}"))
        sources += [("official", url) for url in (() if near else file.urls)]
        self.cache.mkdir(parents=True, exist_ok=True)
        failures: list[str] = []
        corrupt = False
        # datasets are prepared in parallel and may share files
        with FileLock(self.cache / f".{folder}.lock"):
            for origin, path in cached.items():
                if path.is_file():
                    if pooch.file_hash(str(path), alg=algorithm) == digits:
                        return Fetched(path, origin)
                    failures.append(f"{path} (damaged)")
                    corrupt = True
            for origin, source in sources:
                try:
                    self._retrieve(source, file, cached[origin])
                except _SourceError as error:
                    failures.append(f"{source} ({error})")
                    if error.corrupt:
                        log.warning("%s: %s: %s", self.name, source, error)
                    corrupt |= error.corrupt
                else:
                    log.info("%s/%s: fetched from %s", folder, file.name, source)
                    return Fetched(cached[origin], origin)
        tried = f"; tried {'; '.join(failures)}" if failures else ": there is no mirror"
        raise UnobtainableError(f"{folder}/{file.name} is not available{tried}", corrupt=corrupt)

    def _retrieve(self, source: str, file: RemoteFile, cached: Path) -> None:
        """Copy `file` from `source` into the cache, and check it.

        Raises:
            _SourceError: the source does not have the file, or has another one.
        """
        import pooch

        pooch.get_logger().setLevel(logging.WARNING)
        for leftover in cached.parent.glob("tmp*"):
            leftover.unlink()  # left by a killed download; the lock excludes other writers
        try:
            pooch.retrieve(
                source,
                file.digest,
                fname=cached.name,
                path=cached.parent,
                downloader=partial(self._download, file),
            )
        except ValueError as error:
            raise _SourceError("its content has another digest", corrupt=True) from error

    def _download(self, file: RemoteFile, source: str, to: str, _pooch: object) -> None:
        """Write the content of the file at `source` to `to`, for pooch."""
        with TemporaryFile() if file.gzipped else Path(to).open("wb") as copy:
            if source.startswith(("http://", "https://")):
                self._download_web(file, source, copy)
            else:
                _copy(Path(source), copy)
            if file.gzipped:
                copy.seek(0)
                _unpack(copy, file.content_bytes, Path(to))

    def _download_web(self, file: RemoteFile, url: str, copy: IO[bytes]) -> None:
        """Download the file at `url`. Supports netrc files and proxies."""
        import requests
        from pooch import HTTPDownloader

        auth = self.mirror.auth if self.mirror and url.startswith(self.mirror.place) else None
        with progress(file.name, None if file.gzipped else file.content_bytes) as advance:
            download = HTTPDownloader(
                progressbar=_Bar(advance),
                chunk_size=2**16,
                timeout=TIMEOUT_S,
                auth=auth,
                # a gzip file has to arrive as it is
                headers={"User-Agent": f"nodewise/{__version__}", "Accept-Encoding": "identity"},
            )
            try:
                download(url, copy, None)
            except requests.HTTPError as error:
                raise _SourceError(f"answers HTTP {error.response.status_code}") from error
            except requests.RequestException as error:
                # without the error's text, which may contain credentials, such as those of a proxy
                raise _SourceError(f"cannot be downloaded, {type(error).__name__}") from None


class _SourceError(Exception):
    """A source does not have the file, or has it with wrong content (`corrupt`)."""

    def __init__(self, text: str, *, corrupt: bool = False) -> None:
        super().__init__(text)
        self.corrupt = corrupt


class _Bar:
    """Adapts `progress` to what pooch expects of a progress bar."""

    total = 0

    def __init__(self, update: Callable[[float], None]) -> None:
        self.update = update

    def reset(self) -> None:
        """Do nothing: pooch fills the bar afterwards."""

    def close(self) -> None:
        """Do nothing: `progress` closes the bar."""


def _copy(source: Path, copy: IO[bytes]) -> None:
    try:
        file = source.open("rb")
    except OSError as error:
        raise _SourceError(error.strerror or "cannot be read") from error
    with file:
        shutil.copyfileobj(file, copy)


def _unpack(packed: IO[bytes], content_bytes: int, to: Path) -> None:
    """Decompress a gzip file, up to one byte more than expected."""
    try:
        with gzip.open(packed) as content:
            to.write_bytes(content.read(content_bytes + 1))
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _SourceError("is not sound gzip data", corrupt=True) from error
