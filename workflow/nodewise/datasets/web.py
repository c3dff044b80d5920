"""Opening http(s) addresses: quickly or not at all, with redirects and credentials kept in hand."""

import base64
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit
from urllib.request import (
    HTTPDefaultErrorHandler,
    HTTPErrorProcessor,
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
)

from nodewise import __version__

TIMEOUT_S = 10.0


class UnavailableError(Exception):
    """A source does not have the file or cannot be reached; the text says why."""


@dataclass(frozen=True)
class Address:
    """A web address without its credentials; these are apart, and never printed."""

    url: str
    authorization: str | None = field(default=None, repr=False)

    def below(self, *names: str) -> "Address":
        """Return the address of a file below this one."""
        return Address("/".join([self.url.rstrip("/"), *names]), self.authorization)


def parse_address(text: str) -> Address:
    """Split the credentials off an http(s) address.

    Raises:
        ValueError: not a usable http(s) prefix. The message does not repeat `text`.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:
        host, port = None, None
    if not host or port == 0:
        raise ValueError("has no valid host and port")
    if parts.query or parts.fragment:
        raise ValueError("must not have a query or a fragment: file names are put behind it")
    authorization = None
    if "@" in parts.netloc:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    return Address(urlunsplit(bare), authorization)


class _Redirects(HTTPRedirectHandler):
    """Follows to the same scheme or to https, and gives credentials to nobody else."""

    def redirect_request(  # noqa: PLR0917 (the base class has it so)
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> Request | None:
        old, new = urlsplit(req.full_url), urlsplit(newurl)
        if new.scheme not in (old.scheme, "https"):
            raise UnavailableError(f"redirects from {old.scheme} to {new.scheme}, which is refused")
        following = super().redirect_request(req, fp, code, msg, headers, newurl)
        if following is not None and _server(old) == _server(new):
            for name, value in req.unredirected_hdrs.items():
                if name == "Authorization":
                    following.add_unredirected_header(name, value)
        return following


def _server(parts: SplitResult) -> tuple[str, str]:
    return parts.scheme, parts.netloc


class Web:
    """Opens addresses. A server that did not answer once is not asked again."""

    def __init__(self, *, proxies: bool) -> None:
        """With `proxies`, those of the environment (`https_proxy`, …) are used, else none."""
        self._silent: set[str] = set()
        self._opener = OpenerDirector()
        for handler in (
            ProxyHandler(None if proxies else {}),
            HTTPHandler(),
            HTTPSHandler(),
            _Redirects(),
            HTTPDefaultErrorHandler(),
            HTTPErrorProcessor(),
        ):
            self._opener.add_handler(handler)

    def open(self, address: Address) -> HTTPResponse:
        """Return the response of `address`, its body still to be read.

        Raises:
            UnavailableError: no good answer began within TIMEOUT_S, all told.
        """
        server = urlsplit(address.url).netloc
        if server in self._silent:
            raise UnavailableError("did not answer a moment ago")
        agent = {"User-Agent": f"nodewise/{__version__}"}
        request = Request(address.url, headers=agent)  # noqa: S310 (no opener for other schemes)
        if address.authorization is not None:
            request.add_unredirected_header("Authorization", address.authorization)
        try:
            return _within(TIMEOUT_S, lambda: self._opener.open(request, timeout=TIMEOUT_S))
        except UnavailableError:
            raise
        except HTTPError as error:
            error.close()
            raise UnavailableError(f"answers HTTP {error.code}") from error
        except (OSError, HTTPException, ValueError) as error:
            self._silent.add(server)
            raise UnavailableError(_reason(error)) from error


def _within(seconds: float, act: Callable[[], HTTPResponse]) -> HTTPResponse:
    """Return `act()`, or give up after `seconds`.

    Socket timeouts bound neither the name look-up nor several addresses and redirects in a row:
    a thread does. One that is late is left behind.
    """
    answers: queue.SimpleQueue[HTTPResponse | Exception] = queue.SimpleQueue()

    def run() -> None:
        try:
            answers.put(act())
        except Exception as error:
            answers.put(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(answer, Exception):
        raise answer
    return answer


def _reason(error: Exception) -> str:
    """Say in a few words what went wrong; never with text that could hold an address."""
    cause = error.reason if isinstance(error, URLError) else error
    if isinstance(cause, TimeoutError):
        return f"no answer within {TIMEOUT_S:.0f} s"
    if isinstance(cause, OSError) and cause.strerror:
        return f"cannot be reached ({cause.strerror})"
    return f"does not speak HTTP as it should ({type(cause).__name__})"
