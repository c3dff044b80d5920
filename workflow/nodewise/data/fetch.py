"""Get the files of a dataset or of weights from the cache, a mirror or the official address.

pooch downloads into the cache, as `<folder>/<file>`. Files in a mirror are used where they are.
"""

import gzip
import hashlib
import logging
import zlib
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, ClassVar, Literal, NamedTuple

from filelock import FileLock
from pydantic import Field, StringConstraints

from nodewise import __version__
from nodewise.core.cell import Frozen, Name
from nodewise.core.errors import UserError
from nodewise.core.files import atomic
from nodewise.core.progress import progress

log = logging.getLogger(__name__)

_CHUNK = 2**16
TIMEOUT_S = 10.0  # for a connection, and for the next bytes of a download
Source = Literal["any", "official"]

# No leading dot and no slash, so a file stays in its folder and is never hidden.
FileName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
Url = Annotated[str, StringConstraints(pattern=r"^https?://[^/@\s]+(/\S*)?$")]  # no user name


class RemoteFile(Frozen):
    """A file on a server, with the size and digest of its content.

    If `gzipped`, the content is that of the decompressed file. In the cache and in a mirror the
    file is in `folder`, by default the name of the dataset or weights that it belongs to.
    """

    gzipped: ClassVar[bool] = False
    name: FileName
    folder: Name | None = None
    content_bytes: int = Field(ge=1)
    urls: tuple[Url, ...] = ()

    @property
    def digest(self) -> str:
        """Digest of the content: the name of the algorithm, a colon and hexadecimal digits."""
        raise NotImplementedError


class UnobtainableError(Exception):
    """A source, or none of them, has the right file. The message says why, in one line.

    `corrupt` is true if the file is there with wrong content.
    """

    def __init__(self, text: str, *, corrupt: bool = False) -> None:
        super().__init__(text)
        self.corrupt = corrupt

    def check_replaceable(self, name: str, replacement: str, *, allowed: bool) -> None:
        """Warn that `replacement` is used for the dataset or weights `name`.

        Raises:
            UserError: nothing may replace the file: it is corrupt, or `allowed` is false. Somebody
                wanted to use the real data then.
        """
        if self.corrupt:
            raise UserError(f"{name}: {self}; fix or remove the bad file, then run again") from self
        if not allowed:
            raise UserError(
                f"{name}: {self}; put it into a folder DIR under this path and set "
                "NODEWISE_DATASETS=DIR, or allow source 'any'"
            ) from self
        log.warning("%s: %s: %s", name, replacement, self)


class Fetched(NamedTuple):
    """A checked file, and where it came from."""

    path: Path
    origin: Literal["mirror", "official"]


@dataclass(frozen=True)
class Fetcher:
    """Fetches files.

    Args:
        name: name of the dataset or weights that the files belong to. It is also the default folder
            of the files.
        cache: folder in which downloaded files are kept.
        mirror: folder with copies, `<folder>/<file>`; None for none.
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
        place = f"{file.folder or self.name}/{file.name}"
        official = Fetched(self.cache / place, "official")
        sources: list[tuple[Path | str, Fetched]] = []
        if official.path.exists():
            sources.append((official.path, official))
        if self.mirror is not None:
            copy = Path(self.mirror, place)
            sources.append((copy, Fetched(copy, "mirror")))
        sources += [(url, official) for url in (() if near else file.urls)]
        failures: list[str] = []
        corrupt = False
        for source, fetched in sources:
            try:
                if isinstance(source, str):
                    _download(source, file, fetched.path)
                else:
                    _check(source, file)
            except UnobtainableError as error:
                failures.append(f"{source} ({error})")
                if error.corrupt:
                    corrupt = True
                    log.warning("%s: %s", self.name, failures[-1])
            else:
                return fetched
        tried = f"; tried {'; '.join(failures)}" if failures else ": there is no mirror"
        raise UnobtainableError(f"{place} is not available{tried}", corrupt=corrupt)


def _check(path: Path, file: RemoteFile) -> None:
    """Check the content of a file.

    Raises:
        UnobtainableError: it cannot be read, or is another one.
    """
    algorithm, _, digits = file.digest.partition(":")
    try:
        with (gzip.open if file.gzipped else open)(path, "rb") as content:
            right = hashlib.file_digest(content, algorithm).hexdigest() == digits
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UnobtainableError("is not sound gzip data", corrupt=True) from error
    except OSError as error:
        raise UnobtainableError(error.strerror or "cannot be read") from error
    if not right:
        raise UnobtainableError("its content has another digest", corrupt=True)


def _download(url: str, file: RemoteFile, to: Path) -> None:
    """Download a file and check it.

    Messages contain no text of libraries, which may contain credentials of a proxy.

    Raises:
        UnobtainableError: the server does not have the file, or has another one.
        OSError: it cannot be written.
    """
    import pooch
    import requests

    most_bytes = 1.01 * file.content_bytes + _CHUNK  # gzip adds less to what cannot be compressed
    # a gzip file has to arrive as it is
    headers = {"User-Agent": f"nodewise/{__version__}", "Accept-Encoding": "identity"}
    to.parent.mkdir(parents=True, exist_ok=True)
    with (
        FileLock(to.parent / ".lock"),
        atomic(to) as temporary,
        progress(file.name, file.content_bytes) as show,
    ):
        for leftover in set(to.parent.glob(f".{to.name}.*.tmp")) - {temporary}:
            leftover.unlink()  # of a download that was killed
        get = pooch.HTTPDownloader(chunk_size=_CHUNK, timeout=TIMEOUT_S, headers=headers)
        try:
            with temporary.open("wb") as copy:

                def write(chunk: bytes) -> None:
                    if copy.tell() + len(chunk) > most_bytes:
                        raise UnobtainableError("is larger than it should be", corrupt=True)
                    copy.write(chunk)
                    show(copy.tell())

                get(url, SimpleNamespace(write=write, flush=copy.flush), None)
        except requests.HTTPError as error:
            raise UnobtainableError(f"answers HTTP {error.response.status_code}") from None
        except (requests.RequestException, ValueError) as error:  # a Content-Length of no number
            raise UnobtainableError(f"cannot be downloaded, {type(error).__name__}") from None
        _check(temporary, file)
