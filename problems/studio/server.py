"""The web server: a fixed set of files, and one door for messages."""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from socket import AF_INET6
from threading import BoundedSemaphore, Lock
from types import MappingProxyType
from typing import Any, TypeAlias, final

from dynsys.errors import DynsysError
from problems.studio.folder import RefusedError
from problems.studio.guard import Guard
from problems.studio.messages import MOST_BYTES, parse_message
from problems.studio.session import Session

__all__ = ["StudioServer"]

Facts: TypeAlias = dict[str, Any]

PAGE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "/": ("index.html", "text/html; charset=utf-8"),
        "/studio.css": ("studio.css", "text/css; charset=utf-8"),
        "/studio.js": ("studio.js", "text/javascript; charset=utf-8"),
        "/picture.js": ("picture.js", "text/javascript; charset=utf-8"),
        "/panels.js": ("panels.js", "text/javascript; charset=utf-8"),
        "/icon.svg": ("icon.svg", "image/svg+xml"),
    }
)
"""All that can be had with GET: no path is ever looked up on disk."""

HEADERS = (
    ("Cache-Control", "no-store"),
    (
        "Content-Security-Policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self';"
        " connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("Cross-Origin-Opener-Policy", "same-origin"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
    ("Referrer-Policy", "no-referrer"),
    ("X-Content-Type-Options", "nosniff"),
    ("X-Frame-Options", "DENY"),
)
MOST_SESSIONS = 8
"""Pages that are remembered; the one used longest ago goes first."""
MOST_CONNECTIONS = 32
SECONDS = 30.0
"""A connection that is silent for longer is closed."""


@final
class StudioServer(ThreadingHTTPServer):
    """Serves the page; every page gets a session of its own.

    Parameters
    ----------
    guard : who may talk to it, and the host to bind to.
    port : to bind to; 0 lets the system choose.
    begin : gives the session of a new page; a name for it is offered.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, guard: Guard, port: int, begin: Callable[[str], Session]) -> None:
        self.guard = guard
        self._begin = begin
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = Lock()
        self._room = BoundedSemaphore(MOST_CONNECTIONS)
        if ":" in guard.host:
            self.address_family = AF_INET6
        try:
            super().__init__((guard.host, port), _Handler)
        except OSError as error:
            raise RefusedError(
                f"cannot listen on {guard.host} port {port}: {error.strerror or error};"
                " choose another --port"
            ) from None

    @property
    def address(self) -> str:
        """Address of the page, with the token where there is one."""
        host = self.guard.host if self.guard.host not in ("0.0.0.0", "::") else "localhost"
        host = f"[{host}]" if ":" in host else host
        token = f"#token={self.guard.token}" if self.guard.token else ""
        return f"http://{host}:{self.server_address[1]}/{token}"

    def session(self, name: str) -> Session:
        """Return the session of a page; a new one for no name."""
        with self._lock:
            if not name:
                session = self._begin(secrets.token_urlsafe(16))
                name = session.name
                self._sessions[name] = session
                while len(self._sessions) > MOST_SESSIONS:
                    self._sessions.popitem(last=False)[1].close()
            if name not in self._sessions:
                raise RefusedError("this page is no longer known; load it again")
            self._sessions.move_to_end(name)
            return self._sessions[name]

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection, if there is room."""
        if self._room.acquire(blocking=False):
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection until it closes."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let go of a connection that broke; nothing is written."""


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: StudioServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "dynsys-studio", ""
    timeout = SECONDS
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        if problem := self.server.guard.host_problem(self.headers):
            self._refuse(421, problem)
        elif self.path not in PAGE:
            self._refuse(404, "there is no such page")
        else:
            name, kind = PAGE[self.path]
            content = (resources.files("problems.studio") / "page" / name).read_bytes()
            self._send(200, content, kind)

    def do_POST(self) -> None:
        guard = self.server.guard
        if problem := guard.host_problem(self.headers):
            self._refuse(421, problem)
        elif self.path != "/message":
            self._refuse(404, "there is no such door")
        elif problem := guard.message_problem(self.headers):
            self._refuse(403, problem)
        elif problem := guard.token_problem(self.headers):
            self._refuse(401, problem)
        else:
            self._answer()

    def _answer(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self._refuse(411, "the length of the message is missing")
            return
        if int(length) > MOST_BYTES:
            self._refuse(413, f"the message is larger than {MOST_BYTES} bytes")
            return
        try:
            name, action, fields = parse_message(self.rfile.read(int(length)))
            if not name and action != "hello":
                raise RefusedError("a page begins with hello")
            session = self.server.session(name)
            facts = {"session": session.name, **session.act(action, fields)}
            status = 200
        except DynsysError as error:
            facts, status = {"error": str(error)}, 400
        except Exception as error:  # a defect: the page says so, the server goes on
            facts, status = {"error": f"defect: {type(error).__name__}: {error}"}, 500
        self._send(status, json.dumps(facts, allow_nan=False).encode(), "application/json")

    def _refuse(self, status: int, reason: str) -> None:
        self.close_connection = True
        self._send(status, json.dumps({"error": reason}).encode(), "application/json")

    def _send(self, status: int, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for key, value in HEADERS:
            self.send_header(key, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(content)
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""
