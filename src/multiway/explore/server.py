"""The page and its answers over HTTP, for this machine alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from multiway.errors import MultiwayError, reason
from multiway.explore.explorer import Explorer

__all__ = ["Server"]

HOST = "127.0.0.1"
LONGEST = 4096  # characters of an address

FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
}
# Nothing may be asked of another host, whatever a name or a figure holds. Plotly writes styles.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)


class Server(ThreadingHTTPServer):
    """Serves an `Explorer` on 127.0.0.1.

    Args:
        explorer: what answers.
        port: 0 for one that is free.
    """

    daemon_threads = True

    def __init__(self, explorer: Explorer, port: int = 0) -> None:
        try:
            super().__init__((HOST, port), _Handler)
        except (OSError, OverflowError) as error:
            raise MultiwayError(
                f"cannot serve on port {port}: {reason(error)}; take another one, or leave --port "
                "out for any that is free"
            ) from error
        self.answers: dict[str, Callable[[Mapping[str, str]], dict[str, Any]]] = {
            "/api/start": explorer.start,
            "/api/images": explorer.thumbnails,
            "/api/look": explorer.look,
            "/api/breaking": explorer.breaking,
            "/api/codes": explorer.codes,
            "/api/tour": explorer.tour,
        }

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{HOST}:{self.server_port}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that went away in the middle of an answer is no error."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    timeout = 60
    wbufsize = -1  # an answer leaves in one piece, not its header first

    def do_GET(self) -> None:
        """A file of the page, or an answer."""
        # A page of another host whose name was pointed here must not read the answers.
        port = self.server.server_port
        if self.headers.get("Host") not in (f"{HOST}:{port}", f"localhost:{port}"):
            self._send(403, "text/plain", b"this address is for this machine alone")
            return
        parts = urlsplit(self.path)
        if len(self.path) > LONGEST:
            self._send(414, "text/plain", b"this address is too long")
        elif parts.path == "/plotly.js":
            self._send(200, "text/javascript; charset=utf-8", _plotly(), "max-age=86400")
        elif parts.path in FILES:
            name, kind = FILES[parts.path]
            self._send(200, kind, _file(name))
        elif parts.path in self.server.answers:
            self._answer(parts.path, dict(parse_qsl(parts.query)))
        else:
            self._send(404, "text/plain", b"there is nothing here")

    def _answer(self, path: str, query: dict[str, str]) -> None:
        # What went wrong is an answer too, which the page shows.
        try:
            text = json.dumps(self.server.answers[path](query), allow_nan=False)
        except MultiwayError as error:
            text = json.dumps({"error": str(error)})
        except Exception as error:  # a stranger's network may raise anything; the page goes on
            text = json.dumps({"error": f"this failed: {reason(error)}"})
        self._send(200, "application/json", text.encode(), "no-store")

    def _send(self, status: int, kind: str, body: bytes, keep: str = "no-cache") -> None:
        self.send_response(status)
        for name, value in (
            ("Content-Type", kind), ("Content-Length", str(len(body))), ("Cache-Control", keep),
            ("Content-Security-Policy", POLICY), ("X-Content-Type-Options", "nosniff"),
            ("Referrer-Policy", "no-referrer"),
        ):  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are not results."""


@cache
def _plotly() -> bytes:
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).encode()


@cache
def _file(name: str) -> bytes:
    return (resources.files("multiway.explore") / "page" / name).read_bytes()
