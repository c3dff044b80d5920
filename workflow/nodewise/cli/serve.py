"""The site -> browsers on this machine."""

from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from nodewise.core.errors import UserError


def server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of the site in `folder` that only this machine can reach; 0: any free port.

    Raises:
        UserError: there is no site, or no such port is free.
    """
    if not (folder / "index.html").is_file():
        raise UserError(f"{folder}: there is no site; make site builds that of our measurements")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    try:
        return ThreadingHTTPServer(("127.0.0.1", port), handler)
    except OSError as error:
        raise UserError(f"port {port}: {error.strerror}; another: --port 0") from error
