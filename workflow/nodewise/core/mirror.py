"""Mirrors of datasets and weights: a folder, or a web address with or without credentials."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit, urlunsplit

from nodewise.core.errors import UserError


@dataclass(frozen=True)
class Address:
    """A web address. Its credentials are stored separately and never printed."""

    url: str
    auth: tuple[bytes, bytes] | None = field(default=None, repr=False)

    def __str__(self) -> str:
        return self.url

    def below(self, *names: str) -> "Address":
        """Return the address of a file below this one."""
        return Address("/".join([self.url.rstrip("/"), *names]), self.auth)


Mirror = Path | Address


def parse_mirror(text: str) -> Mirror:
    """Parse the folder or the web address of a mirror.

    Raises:
        UserError: the scheme is not http or https, or the address is not valid.
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
        return _split_address(text)
    except ValueError as error:
        raise UserError(f"dataset mirror: the {scheme[1]} address {error}") from error


def _split_address(text: str) -> Address:
    """Split the credentials off an http(s) address.

    Raises:
        ValueError: `text` is not a usable http(s) prefix. The message does not contain `text`.
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
    auth = None
    if "@" in parts.netloc:
        user, password = (unquote(x or "").encode() for x in (parts.username, parts.password))
        auth = (user, password)
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    return Address(urlunsplit(bare), auth)
