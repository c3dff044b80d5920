"""Downloads from a real HTTP server that works, is slow, hostile or gone; and interrupted runs."""

import base64
import gzip
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import make_datasets
from make_datasets import NAMES
from mistakes import user_error
from nodewise.core import fetch
from nodewise.data import prepare

FIRST = NAMES["train_images"]


class Server:
    """Serves `files` (path -> bytes, or a function of the handler) and records each request."""

    def __init__(self):
        self.files = {}
        self.requests = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append((self.path, dict(self.headers)))
                answer = outer.files.get(self.path)
                if callable(answer):
                    answer(self)
                elif answer is None:
                    self.send_error(404)
                else:
                    send(self, answer)

            def log_message(self, *args):
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self.address = f"127.0.0.1:{self._http.server_port}"
        self.url = f"http://{self.address}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def close(self):
        self._http.shutdown()
        self._http.server_close()


def send(handler, body, status=200, length=None, **headers):
    handler.send_response(status)
    if length is not False:
        handler.send_header("Content-Length", str(len(body) if length is None else length))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def redirect(to):
    return lambda handler: send(handler, b"", 302, Location=to)


@pytest.fixture
def server():
    running = Server()
    yield running
    running.close()


@pytest.fixture
def other():
    running = Server()
    yield running
    running.close()


@pytest.fixture(autouse=True)
def quick_and_direct(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("NETRC", "/dev/null")
    monkeypatch.setattr(fetch, "TIMEOUT_S", 1.0)


def packed():
    return {NAMES[role]: gzip.compress(c) for role, c in make_datasets.contents().items()}


def serve_all(server, prefix):
    server.files.update({f"{prefix}/{name}": body for name, body in packed().items()})


def run(tmp_path, *, mirror=None, urls=("http://127.0.0.1:9",), source="any", **changes):
    registry = tmp_path / "registry.yaml"
    make_datasets.write_registry(registry, make_datasets.entry(urls=urls) | changes)
    return prepare(
        "sample", registry=registry, cache=tmp_path / "cache", mirror=mirror, source=source,
        out=tmp_path / "out", seed=1,
    )  # fmt: skip


def refusal(tmp_path, **arguments):
    return user_error(run, tmp_path, **arguments)


def leftovers(tmp_path):
    return {path.name for path in tmp_path.rglob(".*")} - {".lock"}


def test_a_mirror_by_http(server, tmp_path):
    serve_all(server, "/data/sample")
    assert run(tmp_path, mirror=f"{server.url}/data/", source="official").origin == "mirror"
    assert len(server.requests) == 4
    run(tmp_path, mirror=f"{server.url}/data/", source="official")
    assert len(server.requests) == 4  # The second time the files come from the cache.


def test_official_addresses_are_tried_in_order(server, tmp_path, caplog):
    serve_all(server, "/second")
    server.files[f"/first/{FIRST}"] = lambda handler: handler.send_error(500)
    manifest = run(tmp_path, urls=(f"{server.url}/first", f"{server.url}/second"))
    assert manifest.origin == "official"
    assert f"sample: {server.url}/first/{FIRST}: answers HTTP 500" in caplog.text
    text = (tmp_path / "out" / "manifest.json").read_bytes()
    # Now they come from the cache, which remembers their origin.
    again = run(tmp_path, urls=("http://127.0.0.1:9",))
    assert again == manifest
    assert (tmp_path / "out" / "manifest.json").read_bytes() == text


def test_one_mirrored_file_makes_the_whole_mirrored(server, tmp_path):
    serve_all(server, "/official")
    server.files[f"/mirror/sample/{FIRST}"] = packed()[FIRST]
    manifest = run(tmp_path, mirror=f"{server.url}/mirror", urls=(f"{server.url}/official",))
    assert [file.origin for file in manifest.files] == ["mirror"] + ["official"] * 3
    assert manifest.origin == "mirror"


def test_an_official_release_is_downloaded_where_no_release_is_near(server, other, tmp_path):
    entry, files = make_datasets.made("cifar_binary")
    archive = files["sample/binary.tar.gz"]
    entry["releases"][0]["file"]["urls"] = [f"{server.url}/binary.tar.gz"]
    entry["releases"].append(make_datasets.image_release(b"elsewhere", "all"))
    server.files["/binary.tar.gz"] = archive
    for _ in range(2):  # The second time the file comes from the cache.
        manifest = run(tmp_path, mirror=other.url, **entry)
        assert (manifest.origin, manifest.note) == ("official", None)
        assert [path for path, _ in server.requests] == ["/binary.tar.gz"]
        assert [p for p, _ in other.requests] == ["/sample/binary.tar.gz", "/sample/images.zip"]


def test_a_corrupt_official_file_is_passed_over_only_for_a_right_one(server, tmp_path, caplog):
    serve_all(server, "/bad")
    serve_all(server, "/good")
    server.files[f"/bad/{FIRST}"] = b"<html>Please sign in</html>"
    line = refusal(tmp_path, urls=(f"{server.url}/bad",))
    assert f"{server.url}/bad/{FIRST} (is not sound gzip data)" in line
    assert not leftovers(tmp_path)
    manifest = run(tmp_path, urls=(f"{server.url}/bad", f"{server.url}/good"))
    assert manifest.origin == "official"
    assert "is not sound gzip data" in caplog.text


def never(handler):
    time.sleep(20)


def stall(handler):
    send(handler, b"\x1f\x8b" * 10, length=1000)
    time.sleep(20)


def break_off(handler):
    body = packed()[FIRST]
    send(handler, body[: len(body) // 2], length=len(body))
    handler.close_connection = True


def break_off_chunked(handler):
    handler.protocol_version = "HTTP/1.1"
    send(handler, b"ffff\r\nabc", length=False, **{"Transfer-Encoding": "chunked"})


def rubbish(handler):
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.9\r\n")


def loop(handler):
    send(handler, b"", 302, Location=handler.path)


UNAVAILABLE = {
    never: "no answer within 1 s",
    stall: "cannot be reached",
    break_off: "broke off",
    break_off_chunked: "broke off",
    rubbish: "cannot be reached",
    loop: "cannot be downloaded (TooManyRedirects)",
}


@pytest.mark.parametrize("answer", UNAVAILABLE, ids=lambda answer: answer.__name__)
def test_a_server_that_fails_is_found_out_quickly(server, tmp_path, caplog, answer):
    server.files[f"/sample/{FIRST}"] = answer
    began = time.monotonic()
    assert run(tmp_path, mirror=server.url).origin == "generated"
    assert time.monotonic() - began < 6
    assert UNAVAILABLE[answer] in caplog.text
    assert not leftovers(tmp_path)
    assert not (tmp_path / "cache" / "sample" / FIRST).exists()


def test_a_silent_server_is_asked_once_for_all_files(server, other, tmp_path, caplog):
    for name in NAMES.values():
        server.files[f"/{name}"] = never
    serve_all(other, "/data")
    began = time.monotonic()
    assert run(tmp_path, urls=(server.url, f"{other.url}/data")).origin == "official"
    assert time.monotonic() - began < 3
    assert len(server.requests) == 1
    assert "did not answer a moment ago" in caplog.text


def test_too_much_is_not_downloaded(server, tmp_path):
    sent = []

    def endless(handler):
        send(handler, b"", length=False)
        for _ in range(1000):
            handler.wfile.write(bytes(2**16))
            sent.append(2**16)

    server.files[f"/sample/{FIRST}"] = endless
    assert "has more bytes than expected" in refusal(tmp_path, mirror=server.url)
    assert sum(sent) < 10_000_000
    assert not leftovers(tmp_path)


def test_redirects_within_http_are_followed(server, other, tmp_path):
    serve_all(other, "/elsewhere")
    for name in NAMES.values():
        server.files[f"/sample/{name}"] = redirect(f"{other.url}/elsewhere/{name}")
    assert run(tmp_path, mirror=server.url).origin == "mirror"


@pytest.mark.parametrize("scheme", ["ftp", "file", "data"])
def test_redirects_to_other_schemes_are_refused(server, tmp_path, caplog, scheme):
    real = make_datasets.write_mirror(tmp_path / "real") / "sample" / FIRST
    server.files[f"/sample/{FIRST}"] = redirect(f"{scheme}://localhost{real}")
    assert run(tmp_path, mirror=server.url).origin == "generated"
    assert "cannot be downloaded (InvalidSchema)" in caplog.text
    assert len(server.requests) == 1
    assert not (tmp_path / "cache" / "sample" / FIRST).exists()


def test_credentials_are_sent_to_the_mirror_and_shown_nowhere(server, other, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    serve_all(server, "/data/sample")
    serve_all(other, "/elsewhere")
    inside = f"/data/sample/{NAMES['train_labels']}"
    server.files["/moved"] = server.files[inside]
    server.files[inside] = redirect("/moved")
    server.files[f"/data/sample/{FIRST}"] = redirect(f"{other.url}/elsewhere/{FIRST}")
    mirror = f"http://anna:p%40ss-word@{server.address}/data"
    assert run(tmp_path, mirror=mirror).origin == "mirror"
    expected = "Basic " + base64.b64encode(b"anna:p@ss-word").decode()
    assert len(server.requests) == 5
    assert all(headers["Authorization"] == expected for _, headers in server.requests)
    assert [path for path, _ in other.requests] == [f"/elsewhere/{FIRST}"]
    assert "Authorization" not in other.requests[0][1]

    server.files.clear()
    (tmp_path / "cache" / "sample" / FIRST).unlink()
    told = [refusal(tmp_path, mirror=mirror, source="official"), caplog.text]
    written = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    for secret in ("anna", "p%40ss-word", "p@ss-word", expected.split()[1]):
        assert not any(secret in text for text in told)
        assert not any(secret.encode() in content for content in written)
    assert f"{server.url}/data/sample/{FIRST} (answers HTTP 404)" in told[0]


def test_proxies_of_the_environment_are_used(server, other, tmp_path, monkeypatch):
    monkeypatch.setenv("http_proxy", other.url)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    serve_all(server, "/sample")
    assert run(tmp_path, mirror=server.url).origin == "mirror"
    assert not other.requests
    (tmp_path / "cache" / "sample" / FIRST).unlink()
    other.files[f"http://data.invalid/{FIRST}"] = packed()[FIRST]
    assert run(tmp_path, urls=("http://data.invalid",)).files[0].origin == "official"


def test_credentials_come_from_netrc(server, tmp_path, monkeypatch):
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login anna password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    serve_all(server, "/sample")
    assert run(tmp_path, mirror=server.url).origin == "mirror"
    expected = "Basic " + base64.b64encode(b"anna:secret").decode()
    assert server.requests[0][1]["Authorization"] == expected


RUN = """
import sys
from pathlib import Path
from nodewise.data import prepare
root = Path(sys.argv[1])
manifest = prepare("sample", registry=root / "registry.yaml", cache=root / "cache",
                   mirror=sys.argv[2], source="official", out=root / "out", seed=1)
print(manifest.sha256)
"""


def start(tmp_path, mirror):
    command = [sys.executable, "-c", RUN, tmp_path, mirror]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(condition):
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until, "it did not happen within 30 s"
        time.sleep(0.02)


def test_a_run_killed_in_the_middle_of_a_download_keeps_the_whole_files(server, tmp_path):
    make_datasets.write_registry(tmp_path / "registry.yaml", make_datasets.entry())
    serve_all(server, "/sample")
    whole = server.files[f"/sample/{NAMES['test_images']}"]

    def half(handler):
        send(handler, whole[:5000], length=len(whole))
        handler.wfile.flush()
        time.sleep(20)

    server.files[f"/sample/{NAMES['test_images']}"] = half
    cache = tmp_path / "cache" / "sample"
    running = start(tmp_path, server.url)
    wait_for(lambda: len(server.requests) == 3 and list(cache.glob(".*.tmp")))
    os.kill(running.pid, signal.SIGKILL)
    running.communicate(timeout=30)
    assert not (cache / NAMES["test_images"]).exists()
    assert not (tmp_path / "out" / "manifest.json").exists()

    server.files[f"/sample/{NAMES['test_images']}"] = whole
    again = start(tmp_path, server.url)
    told, errors = again.communicate(timeout=60)
    assert again.returncode == 0, errors
    assert told.strip()
    assert not leftovers(tmp_path)
    # Complete files were kept; only the incomplete one was downloaded again.
    assert len(server.requests) == 4 + 1


def test_two_runs_at_once_agree(server, tmp_path):
    make_datasets.write_registry(tmp_path / "registry.yaml", make_datasets.entry())
    serve_all(server, "/sample")
    runs = [start(tmp_path, server.url) for _ in range(3)]
    told = [(run.communicate(timeout=60), run.returncode) for run in runs]
    assert [code for _, code in told] == [0, 0, 0], told
    assert len({out for (out, _), _ in told}) == 1
    assert len(server.requests) == 4  # One run downloaded; the others waited for it.
    assert not leftovers(tmp_path)
