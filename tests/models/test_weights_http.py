"""Pretrained weights from a real HTTP server, by the command and by the function."""

import functools
import hashlib
import json
import os
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from nodewise.core.errors import UserError
from nodewise.models import weights

CONTENT = os.urandom(1_000_003)
FILE = "model.safetensors"


class Handler(SimpleHTTPRequestHandler):
    """Serves a folder; a download of a path below `/half/` breaks off in the middle."""

    def do_GET(self):
        self.server.asked.append(self.path)
        if self.path.startswith("/half/"):
            self.send_response(200)
            self.send_header("Content-Length", str(len(CONTENT)))
            self.end_headers()
            self.wfile.write(CONTENT[: len(CONTENT) // 2])
            self.close_connection = True
        else:
            super().do_GET()

    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path):
    (tmp_path / "served" / "sample").mkdir(parents=True)
    (tmp_path / "served" / "sample" / FILE).write_bytes(CONTENT)
    handler = functools.partial(Handler, directory=tmp_path / "served")
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    running.asked = []
    threading.Thread(target=running.serve_forever, daemon=True).start()
    running.url = f"http://127.0.0.1:{running.server_port}"
    yield running
    running.shutdown()
    running.server_close()


@pytest.fixture(autouse=True)
def direct(monkeypatch):
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def write_registry(path, urls):
    entry = {
        "title": "Sample weights",
        "licence": "MIT",
        "licence_url": "https://example.org/",
        "file": {
            "name": FILE,
            "content_bytes": len(CONTENT),
            "content_sha256": hashlib.sha256(CONTENT).hexdigest(),
            "urls": urls,
        },
    }
    path.write_text(yaml.safe_dump({"sample": entry}))
    return path


def run(tmp_path, *urls, mirror=None, source="official"):
    return weights.prepare(
        "sample",
        registry=write_registry(tmp_path / "weights.yaml", list(urls)),
        cache=tmp_path / "cache",
        mirror=mirror,
        source=source,
        out=tmp_path / "out",
    )


def test_official_addresses_are_tried_in_order_and_remembered(tmp_path, server):
    good = f"{server.url}/sample/{FILE}"
    manifest = run(tmp_path, f"{server.url}/half/{FILE}", f"{server.url}/none/{FILE}", good)
    assert manifest.origin == "official"
    assert (tmp_path / "out" / FILE).read_bytes() == CONTENT
    server.asked.clear()
    assert run(tmp_path, good) == manifest
    assert server.asked == []  # The second time the file comes from the cache.


def test_a_mirror_comes_before_the_official_address(tmp_path, server):
    manifest = run(tmp_path, f"{server.url}/official/{FILE}", mirror=server.url)
    assert manifest.origin == "mirror"
    assert server.asked == [f"/sample/{FILE}"]


def test_a_download_that_breaks_off_leaves_nothing(tmp_path, server):
    manifest = run(tmp_path, f"{server.url}/half/{FILE}", source="any")
    assert manifest.origin == "random"
    assert "(broke off)" in manifest.reason
    assert {path.name for path in (tmp_path / "cache" / "sample").iterdir()} == {".lock"}


def test_another_file_at_the_address_is_refused(tmp_path, server):
    (tmp_path / "served" / "sample" / FILE).write_bytes(b"<html>Please sign in</html>")
    with pytest.raises(UserError, match=r"has 27 bytes with SHA-256 .*, expected 1,000,003 with"):
        run(tmp_path, f"{server.url}/sample/{FILE}", source="any")


def test_the_command(tmp_path, server):
    """It runs in a temporary folder, whose registry points to this server."""
    (tmp_path / "project" / "data").mkdir(parents=True)
    write_registry(tmp_path / "project" / "data" / "weights.yaml", [f"{server.url}/sample/{FILE}"])

    def nodewise(*arguments, **environment):
        return subprocess.run(
            [sys.executable, "-m", "nodewise", "prepare-weights", *arguments],
            cwd=tmp_path / "project",
            env=os.environ | {"NODEWISE_DATASETS": ""} | environment,
            capture_output=True,
            text=True,
            check=False,
        )

    done = nodewise("sample", "--out", "out")
    assert (done.returncode, done.stdout) == (0, "sample: official\n")
    manifest = json.loads((tmp_path / "project" / "out" / "manifest.json").read_text())
    assert manifest["sha256"] == hashlib.sha256(CONTENT).hexdigest()
    assert Path(tmp_path, "project", "data", "cache", "sample", FILE).is_file()
    wrong = nodewise("other", "--out", "out")
    assert wrong.returncode == 2
    assert wrong.stderr == (
        "nodewise: 'other' are no weights of data/weights.yaml; allowed: sample\n"
    )
