"""Credentials are split off the address of a mirror and never shown."""

import pytest

from nodewise.core.mirror import parse_mirror


@pytest.mark.parametrize(
    ("text", "url", "auth"),
    [
        ("http://example.org", "http://example.org/a/b.gz", None),
        ("https://example.org:8443/data/", "https://example.org:8443/data/a/b.gz", None),
        ("http://anna:se%3Acret@example.org/x", "http://example.org/x/a/b.gz", ("anna", "se:cret")),
        ("https://token@[::1]:80/x", "https://[::1]:80/x/a/b.gz", ("token", "")),
        ("http://a:b@c@example.org", "http://example.org/a/b.gz", ("a", "b@c")),
        ("http://anna:ö@example.org", "http://example.org/a/b.gz", ("anna", "ö")),
    ],
)
def test_credentials_are_split_off(text, url, auth):
    below = parse_mirror(text).below("a", "b.gz")
    assert below.url == url
    assert below.auth == (auth and tuple(part.encode() for part in auth))
    assert repr(below) == f"Address(url={url!r})"
