"""Web addresses: credentials are split off, and a redirect never leaves http(s) or loses TLS."""

import base64
from email.message import Message
from io import BytesIO
from urllib.request import Request

import pytest

from nodewise.datasets.web import UnavailableError, _Redirects, parse_address


@pytest.mark.parametrize(
    ("text", "url", "pair"),
    [
        ("http://example.org", "http://example.org/a/b.gz", None),
        ("https://example.org:8443/data/", "https://example.org:8443/data/a/b.gz", None),
        ("http://anna:se%3Acret@example.org/x", "http://example.org/x/a/b.gz", b"anna:se:cret"),
        ("https://token@[::1]:80/x", "https://[::1]:80/x/a/b.gz", b"token:"),
        ("http://a:b@c@example.org", "http://example.org/a/b.gz", b"a:b@c"),
    ],
)
def test_credentials_are_split_off(text, url, pair):
    address = parse_address(text)
    below = address.below("a", "b.gz")
    assert below.url == url
    expected = None if pair is None else f"Basic {base64.b64encode(pair).decode()}"
    assert address.authorization == below.authorization == expected
    assert expected is None or expected not in repr(below)


def redirected(old, new):
    request = Request(old)  # noqa: S310 (it is not opened)
    return _Redirects().redirect_request(request, BytesIO(), 302, "Found", Message(), new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("http://a.example/x", "http://b.example/y"),
        ("http://a.example/x", "https://a.example/x"),
        ("https://a.example/x", "https://b.example/y"),
    ],
)
def test_redirects_that_are_followed(old, new):
    following = redirected(old, new)
    assert following is not None
    assert following.full_url == new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("https://a.example/x", "http://a.example/x"),
        ("http://a.example/x", "ftp://a.example/x"),
        ("http://a.example/x", "file:///etc/passwd"),
        ("https://a.example/x", "data:,x"),
    ],
)
def test_redirects_that_are_refused(old, new):
    with pytest.raises(UnavailableError, match="refused"):
        redirected(old, new)
