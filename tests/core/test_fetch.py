"""Files come from the first source that has the right content, whatever servers do."""

import gzip
import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest

from nodewise.core import fetch
from nodewise.core.fetch import Fetcher, RemoteFile, UnobtainableError

CONTENT = bytes(range(256)) * 400
SHA256 = hashlib.sha256(CONTENT).hexdigest()


class Plain(RemoteFile):
    @property
    def digest(self):
        return f"sha256:{SHA256}"


class Packed(Plain):
    gzipped: ClassVar[bool] = True


def send(handler, body, status=200, length=None, **headers):
    handler.send_response(status)
    if length is not False:
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


def files_in(tmp_path):
    cache = tmp_path / "cache"
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())


LOCK = ".sample.lock"


def test_the_first_source_that_has_the_file_is_used_and_the_cache_before_all(server, tmp_path):
    server.files["/good/file.gz"] = CONTENT
    fetched = get(tmp_path, f"{server.url}/none/file.gz", f"{server.url}/good/file.gz")
    assert (fetched.origin, fetched.path.read_bytes()) == ("official", CONTENT)
    assert server.requests == ["/none/file.gz", "/good/file.gz"]
    assert get(tmp_path, near=True) == fetched
    assert files_in(tmp_path) == [LOCK, "official/sample/file.gz"]


def test_a_mirror_comes_before_the_official_address(tmp_path):
    (tmp_path / "mirror" / "sample").mkdir(parents=True)
    (tmp_path / "mirror" / "sample" / "file.gz").write_bytes(CONTENT)
    fetched = get(tmp_path, "http://127.0.0.1:9/", mirror=tmp_path / "mirror")
    assert (fetched.origin, fetched.path.read_bytes()) == ("mirror", CONTENT)
    assert get(tmp_path) == fetched


def test_near_asks_no_official_address(server, tmp_path):
    server.files["/file.gz"] = CONTENT
    assert not failure(tmp_path, f"{server.url}/file.gz", near=True).corrupt
    assert not server.requests


def test_a_gzipped_file_is_stored_unpacked_however_it_was_packed(server, tmp_path):
    server.files["/a"], server.files["/b"] = gzip.compress(CONTENT, 1), gzip.compress(CONTENT, 9)
    for place in "ab":
        fetched = get(tmp_path / place, f"{server.url}/{place}", kind=Packed)
        assert fetched.path.name == "file"
        assert fetched.path.read_bytes() == CONTENT


DAMAGED = {
    "flipped": CONTENT[:100] + b"?" + CONTENT[101:],
    "cut": CONTENT[:-1],
    "empty": b"",
    "page": b"<html>Please sign in</html>",
}
PACKED = {f"packed {name}": gzip.compress(content) for name, content in DAMAGED.items()} | {
    "broken off": gzip.compress(CONTENT)[:-200],
    "checksum": gzip.compress(CONTENT)[:-8] + bytes(8),
    "bomb": gzip.compress(bytes(50_000_000)),
    "no gzip": b"<html>",
}


@pytest.mark.parametrize("damage", [*DAMAGED, *PACKED])
def test_wrong_content_is_corrupt_and_never_stored(tmp_path, damage):
    kind, bad = (Plain, DAMAGED[damage]) if damage in DAMAGED else (Packed, PACKED[damage])
    mirrored = tmp_path / "mirror" / "sample" / "file.gz"
    mirrored.parent.mkdir(parents=True)
    mirrored.write_bytes(bad)
    error = failure(tmp_path, mirror=tmp_path / "mirror", kind=kind)
    assert error.corrupt
    assert str(mirrored) in str(error)
    assert mirrored.read_bytes() == bad
    assert files_in(tmp_path) == [LOCK]


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


def break_off(handler):
    send(handler, CONTENT[:5000], length=len(CONTENT))
    handler.close_connection = True


def break_off_chunked(handler):
    handler.protocol_version = "HTTP/1.1"
    send(handler, b"ffff\r\nabc", length=False, **{"Transfer-Encoding": "chunked"})


def rubbish(handler):
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n")


def loop(handler):
    send(handler, b"", 302, Location=handler.path)


def elsewhere(handler):
    send(handler, b"", 302, Location="file:///etc/hostname")


@pytest.mark.parametrize("answer", [never, break_off, break_off_chunked, rubbish, loop, elsewhere])
def test_a_server_that_fails_is_unavailable_and_leaves_nothing(server, tmp_path, answer):
    server.files["/file.gz"] = answer
    began = time.monotonic()
    assert not failure(tmp_path, f"{server.url}/file.gz").corrupt
    assert time.monotonic() - began < 6
    assert files_in(tmp_path) == [LOCK]


RUN = """
import sys
from pathlib import Path
sys.path.insert(0, "tests/core")
from test_fetch import get
print(get(Path(sys.argv[1]), sys.argv[2]).path)
"""


def start(tmp_path, url):
    command = [sys.executable, "-c", RUN, tmp_path, url]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_a_killed_download_is_started_again_and_cleaned_up(server, tmp_path):
    def half(handler):
        send(handler, CONTENT[:5000], length=len(CONTENT))
        handler.wfile.flush()
        time.sleep(20)

    server.files["/file.gz"] = half
    running = start(tmp_path, f"{server.url}/file.gz")
    until = time.monotonic() + 30
    while not list((tmp_path / "cache").rglob("tmp*")):
        assert time.monotonic() < until
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    running.communicate(timeout=30)
    server.files["/file.gz"] = CONTENT
    assert get(tmp_path, f"{server.url}/file.gz").path.read_bytes() == CONTENT
    assert files_in(tmp_path) == [LOCK, "official/sample/file.gz"]


def test_two_processes_at_once_download_a_file_once(server, tmp_path):
    server.files["/file.gz"] = CONTENT
    running = [start(tmp_path, f"{server.url}/file.gz") for _ in range(2)]
    assert len({run.communicate(timeout=60)[0] for run in running}) == 1
    assert [run.returncode for run in running] == [0, 0]
    assert len(server.requests) == 1
