"""Get the files of a dataset or of weights from the cache, a mirror or the official address.

pooch downloads a file under a temporary name, checks its digest and moves it into the cache, as
`<origin>/<folder>/<file>`. A gzipped file is stored unpacked. Mirrors are never written to.
"""

import gzip
import logging
import re
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from filelock import FileLock
from pydantic import AfterValidator, Field, StringConstraints

from nodewise import __version__
from nodewise.core.cell import Frozen, Name
from nodewise.core.errors import UserError
from nodewise.core.progress import progress

log = logging.getLogger(__name__)

RealOrigin = Literal["mirror", "official"]

MAX_CONTENT_BYTES = 2**30  # per file
_CHUNK = 2**16
TIMEOUT_S = 10.0  # for a connection, and for the next bytes of a download


def _web_address(url: str) -> str:
    if not re.fullmatch(r"https?://[^/@\s]+(/\S*)?", url):
        raise ValueError("must be an http(s) address without a user name")
    return url


# No leading dot and no slash, so a file stays in its folder and is never hidden.
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, AfterValidator(_web_address)]
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
        name: name of the dataset or weights that the files belong to. It is also the default folder
            of the files.
        cache: folder of the cache.
        mirror: folder with copies, `<folder>/<file>`, which are taken before the official address
            is asked; None for none.
    """

    name: str
    cache: Path
    mirror: str | None

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
        sources: list[tuple[RealOrigin, str]] = []
        if self.mirror is not None:
            sources.append(("mirror", str(Path(self.mirror, folder, file.name))))
        sources += [("official", url) for url in (() if near else file.urls)]
        self.cache.mkdir(parents=True, exist_ok=True)
        failures: list[str] = []
        corrupt = False
        # datasets are prepared in parallel and may share files
        with FileLock(self.cache / f".{folder}.lock"):
            for origin in get_args(RealOrigin):
                path = self.cache / origin / folder / name
                if path.is_file():
                    if pooch.file_hash(str(path), alg=algorithm) == digits:
                        return Fetched(path, origin)
                    failures.append(f"{path} (damaged)")
                    corrupt = True
            for origin, source in sources:
                path = self.cache / origin / folder / name
                try:
                    _retrieve(source, file, path)
                except _SourceError as error:
                    failures.append(f"{source} ({error})")
                    corrupt |= error.corrupt
                    if error.corrupt:
                        log.warning("%s: %s", self.name, failures[-1])
                else:
                    return Fetched(path, origin)
        tried = f"; tried {'; '.join(failures)}" if failures else ": there is no mirror"
        raise UnobtainableError(f"{folder}/{file.name} is not available{tried}", corrupt=corrupt)


class _SourceError(Exception):
    """A source does not have the file, or has it with wrong content (`corrupt`)."""

    def __init__(self, text: str, *, corrupt: bool = False) -> None:
        super().__init__(text)
        self.corrupt = corrupt


def _retrieve(source: str, file: RemoteFile, cached: Path) -> None:
    """Copy `file` from `source` into the cache, and check it.

    Raises:
        _SourceError: the source does not have the file, or has another one.
    """
    import pooch

    def download(_url: str, to: str, _pooch: object) -> None:
        with Path(to).open("wb") as copy, progress(file.name, file.content_bytes) as advance:
            for chunk in _content(source, file):
                copy.write(chunk)
                advance(len(chunk))

    pooch.get_logger().setLevel(logging.WARNING)
    for leftover in cached.parent.glob("tmp*"):
        leftover.unlink()  # left by a killed download; the lock excludes other writers
    try:
        pooch.retrieve(
            source,
            file.digest,
            fname=cached.name,
            path=cached.parent,
            downloader=download,
        )
    except ValueError as error:
        raise _SourceError("its content has another digest", corrupt=True) from error


def _content(source: str, file: RemoteFile) -> Iterator[bytes]:
    """Yield the unpacked content of the file at `source`, at most one chunk more than expected.

    Messages contain no text of libraries, which may contain credentials of a proxy.
    """
    import requests
    from urllib3.exceptions import HTTPError

    left = file.content_bytes
    try:
        with ExitStack() as opened:
            content = opened.enter_context(_open(source))
            if file.gzipped:
                content = opened.enter_context(gzip.open(content))
            while left >= 0 and (chunk := content.read(_CHUNK)):
                left -= len(chunk)
                yield chunk
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise _SourceError("is not sound gzip data", corrupt=True) from error
    except requests.HTTPError as error:
        raise _SourceError(f"answers HTTP {error.response.status_code}") from None
    except (requests.RequestException, HTTPError) as error:
        raise _SourceError(f"cannot be downloaded, {type(error).__name__}") from None
    except OSError as error:
        raise _SourceError(error.strerror or "cannot be read") from error


def _open(source: str) -> Any:  # noqa: ANN401 (a file, or what urllib3 offers as one)
    """Open a file of a folder or of a server. Supports netrc files and proxies."""
    import requests

    if not source.startswith(("http://", "https://")):
        return Path(source).open("rb")
    # a gzip file has to arrive as it is
    headers = {"User-Agent": f"nodewise/{__version__}", "Accept-Encoding": "identity"}
    answer = requests.get(source, stream=True, timeout=TIMEOUT_S, headers=headers)
    answer.raise_for_status()
    return answer.raw
