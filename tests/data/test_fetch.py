"""Files come from the first source that has the right content, whatever servers do."""

import gzip
import hashlib
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from nodewise.data import fetch
from nodewise.data.fetch import Fetcher, RemoteFile, UnobtainableError

CONTENT = bytes(range(256)) * 400


class Plain(RemoteFile):
    @property
    def digest(self):
        return f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Packed(Plain):
    gzipped: ClassVar[bool] = True


def send(handler, body, status=200, length=None, **headers):
    handler.send_response(status)
    handler.send_header("Content-Length", str(length or len(body)))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


class Handler(BaseHTTPRequestHandler):
    """Serves the server's `files`: bytes, or a function of the handler."""

    def do_GET(self):
        self.server.requests.append(self.path)
        answer = self.server.files.get(self.path)
        if callable(answer):
            answer(self)
        elif answer is None:
            self.send_error(404)
        else:
            send(self, answer)

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    running.files, running.requests = {}, []
    running.url = f"http://127.0.0.1:{running.server_port}"
    threading.Thread(target=running.serve_forever, daemon=True).start()
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture(autouse=True)
def quick_and_direct(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", "/dev/null")
    monkeypatch.setattr(fetch, "TIMEOUT_S", 1.0)


def get(tmp_path, *urls, mirror=None, kind=Plain, near=False):
    file = kind(name="file.gz", content_bytes=len(CONTENT), urls=urls)
    fetcher = Fetcher("sample", tmp_path / "cache", mirror and str(mirror))
    return fetcher.fetch(file, near=near)


def failure(tmp_path, *urls, **arguments):
    with pytest.raises(UnobtainableError) as caught:
        get(tmp_path, *urls, **arguments)
    assert "\n" not in str(caught.value)
    return caught.value


def mirrored(tmp_path, content):
    path = tmp_path / "mirror/sample/file.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def cached(tmp_path):
    files = (path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    return [path for path in files if path.name != ".lock"]


def test_the_first_source_that_has_the_file_is_used_and_the_cache_before_all(server, tmp_path):
    server.files["/good/file.gz"] = CONTENT
    mirror = tmp_path / "mirror"
    urls = f"{server.url}/none/file.gz", f"{server.url}/good/file.gz"
    assert not failure(tmp_path, *urls, mirror=mirror, near=True).corrupt
    assert not server.requests
    fetched = get(tmp_path, *urls, mirror=mirror)
    assert (fetched.origin, fetched.path.read_bytes()) == ("official", CONTENT)
    assert server.requests == ["/none/file.gz", "/good/file.gz"]
    mirrored(tmp_path, CONTENT)
    assert get(tmp_path, mirror=mirror, near=True) == fetched
    assert cached(tmp_path) == [fetched.path]


def test_a_mirror_comes_before_the_official_address_and_is_used_where_it_is(tmp_path):
    path = mirrored(tmp_path, CONTENT)
    fetched = get(tmp_path, "http://127.0.0.1:9/", mirror=tmp_path / "mirror")
    assert (fetched.origin, fetched.path) == ("mirror", path)


def test_a_gzipped_file_is_known_by_what_is_in_it_however_it_was_packed(server, tmp_path):
    for level, place in ((1, "a"), (9, "b")):
        server.files[f"/{place}"] = gzip.compress(CONTENT, level)
        fetched = get(tmp_path / place, f"{server.url}/{place}", kind=Packed)
        assert fetched.path.read_bytes() == server.files[f"/{place}"]


DAMAGED = [
    (Plain, CONTENT[:100] + b"?" + CONTENT[101:]),
    (Plain, CONTENT[:-1]),
    (Packed, gzip.compress(CONTENT[:-1])),
    (Packed, gzip.compress(CONTENT)[:-200]),
    (Packed, gzip.compress(CONTENT)[:-8] + bytes(8)),
]


@pytest.mark.parametrize(("kind", "bad"), DAMAGED, ids=range(len(DAMAGED)))
def test_wrong_content_is_corrupt_and_never_stored(server, tmp_path, kind, bad):
    path = mirrored(tmp_path, bad)
    server.files["/file.gz"] = bad
    url = f"{server.url}/file.gz"
    error = failure(tmp_path, url, mirror=tmp_path / "mirror", kind=kind)
    assert error.corrupt
    assert str(path) in str(error) and url in str(error)
    assert path.read_bytes() == bad
    assert cached(tmp_path) == []


def test_a_download_removes_what_a_killed_one_left(server, tmp_path):
    left = tmp_path / "cache/sample/.file.gz.12345678.tmp"
    left.parent.mkdir(parents=True)
    left.write_bytes(CONTENT[:5])
    server.files["/file.gz"] = CONTENT
    path = get(tmp_path, f"{server.url}/file.gz").path
    assert cached(tmp_path) == [path]


def test_a_damaged_file_of_the_cache_is_replaced_or_named(server, tmp_path):
    server.files["/file.gz"] = CONTENT
    path = get(tmp_path, f"{server.url}/file.gz").path
    path.write_bytes(b"?")
    for _ in range(2):  # A second attempt must not succeed, either.
        error = failure(tmp_path)
        assert error.corrupt
        assert str(path) in str(error)
    assert get(tmp_path, f"{server.url}/file.gz").path.read_bytes() == CONTENT


def never(handler):
    time.sleep(20)


def endless(handler):
    handler.send_response(200)
    handler.end_headers()
    with suppress(OSError):
        while True:
            handler.wfile.write(CONTENT)


def break_off(handler):
    send(handler, CONTENT[:5000], length=len(CONTENT))
    handler.close_connection = True


def without_a_size(handler):
    send(handler, CONTENT, length="unknown")


def elsewhere(handler):
    send(handler, b"", 302, Location="file:///etc/hostname")


@pytest.mark.parametrize("answer", [never, endless, break_off, without_a_size, elsewhere])
def test_a_server_that_fails_is_given_up_and_leaves_nothing(server, tmp_path, answer):
    server.files["/file.gz"] = answer
    began = time.monotonic()
    error = failure(tmp_path, f"{server.url}/file.gz")
    assert error.corrupt == ("is larger than it should be" in str(error)) == (answer is endless)
    assert time.monotonic() - began < 6
    assert cached(tmp_path) == []
