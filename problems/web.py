"""A small web server for pages of our own: fixed files, and one door for messages.

A message is read only if :class:`AccessRules` let it pass; what it asks is for the handler of
the page to say. Connections are bounded in number and time, and no path is ever looked up on
disk.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from io import BufferedReader, BytesIO, RawIOBase
from socket import AF_INET6, SHUT_RDWR, socket
from threading import Lock
from time import monotonic
from types import MappingProxyType
from typing import Any, ClassVar, final

from dynsys.errors import RefusedError

__all__ = [
    "HEADER",
    "MOST_BYTES",
    "MOST_CONNECTIONS",
    "TOKEN_HEADER",
    "AccessRules",
    "PageHandler",
    "PageServer",
    "host_problem",
    "is_loopback",
    "page_files",
]

# ---- who may talk to the server ------------------------------------------------------------
#
# A page of another site cannot reach a server on loopback by pointing a name of its own there
# (DNS rebinding): the Host header must name this machine. It cannot post to it either: messages
# are JSON with a header of our own, which browsers send across sites only after asking, and the
# Origin must be ours. Where the server is reachable from other machines, every message must
# carry the token.

HEADER = "X-Dynsys-Studio"
TOKEN_HEADER = "X-Dynsys-Token"
SHORTEST_TOKEN = 16
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def is_loopback(host: str) -> bool:
    """Tell whether a host to bind to is reachable from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def host_problem(host: str, given: Sequence[str]) -> str:
    """Why Host headers ``given`` to a server bound to ``host`` are refused, or nothing."""
    if len(given) != 1:
        return "exactly one Host header is needed"
    name = given[0].rpartition(":")[0] if _has_port(given[0]) else given[0]
    if not is_loopback(host):
        return ""  # any name may be ours; the token decides
    if name.lower() not in (*LOOPBACK_NAMES, host.lower()):
        return "the Host header does not name this machine"
    return ""


@final
@dataclass(frozen=True)
class AccessRules:
    """Checks of requests to a server bound to ``host``; ``token`` may be empty on loopback.

    Raises
    ------
    RefusedError
        if the host is not loopback and there is no token, or a short one.
    """

    host: str
    token: str = ""

    def __post_init__(self) -> None:
        if not self.token and not is_loopback(self.host):
            raise RefusedError(
                f"{self.host} can be reached from other machines: give --token with at least"
                f" {SHORTEST_TOKEN} characters, or leave --host out"
            )
        if self.token and len(self.token) < SHORTEST_TOKEN:
            raise RefusedError(f"the token must have at least {SHORTEST_TOKEN} characters")
        if self.token and not (self.token.isascii() and self.token.isalnum()):
            raise RefusedError("the token must be of letters and digits")

    def host_problem(self, headers: Message) -> str:
        """Why the Host header is refused, or nothing."""
        return host_problem(self.host, headers.get_all("Host") or [])

    def message_problem(self, headers: Message) -> str:
        """Why a message is refused, or nothing; the Host has been checked."""
        if headers.get(HEADER) != "1":
            return f"the header {HEADER} is missing"
        if headers.get_content_type() != "application/json":
            return "messages are application/json"
        origin = headers.get("Origin")
        if origin is not None and origin != f"http://{headers['Host']}":
            return "the Origin is another site"
        if headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return "the message comes from another site"
        return ""

    def token_problem(self, headers: Message) -> str:
        """Why the token is refused, or nothing."""
        given = headers.get(TOKEN_HEADER, "")
        if self.token and not hmac.compare_digest(given.encode(), self.token.encode()):
            return "the token is missing or wrong; open the address that was printed"
        return ""


def _has_port(host: str) -> bool:
    end = host.rpartition(":")[2]
    return ":" in host and end.isdecimal() and not host.endswith("]")


# ---- the server ----------------------------------------------------------------------------

MOST_BYTES = 64 * 2**10
"""Largest message that is read."""
_CONTENT = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


def page_files(*files: str) -> Mapping[str, tuple[str, str]]:
    """All that can be had with GET: a file of the package ``problems`` and its type, by path.

    ``index.html`` is the page itself, ``/``.
    """
    found = {}
    for file in files:
        name = file.rpartition("/")[2]
        path = "/" if name == "index.html" else f"/{name}"
        found[path] = file, _CONTENT[name.partition(".")[2]]
    return MappingProxyType(found)


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
MOST_CONNECTIONS = 32
SECONDS = 30.0
"""Longest silence between two requests, and longest life of a connection on which no message
has passed the checks (the token among them)."""
REQUEST_SECONDS = 10.0
"""Longest time that a request may take to arrive, or an answer to leave: however many drops it
comes in."""


class PageServer(ThreadingHTTPServer):
    """Serves a page.

    Parameters
    ----------
    access : who may talk to it, and the host to bind to.
    port : to bind to; 0 lets the system choose.
    handler : answers messages.
    option : of the command, that chooses the port.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS

    def __init__(
        self,
        access: AccessRules,
        port: int,
        handler: type[PageHandler],
        option: str = "--port",
    ) -> None:
        self.access = access
        self._connections = Lock()
        self._open: dict[Any, bool] = {}  # connections, oldest first: have they been let in?
        if ":" in access.host:
            self.address_family = AF_INET6
        try:
            super().__init__((access.host, port), handler)
        except OSError as error:
            raise RefusedError(
                f"cannot listen on {access.host} port {port}: {error.strerror or error};"
                f" choose another {option}"
            ) from None

    @property
    def address(self) -> str:
        """Address of the page, with the token where there is one."""
        host = self.access.host if self.access.host not in ("0.0.0.0", "::") else "localhost"
        host = f"[{host}]" if ":" in host else host
        token = f"#token={self.access.token}" if self.access.token else ""
        return f"http://{host}:{self.server_address[1]}/{token}"

    def process_request(self, request: Any, client_address: Any) -> None:
        """Take a connection; where there is no room, the oldest that was not let in goes."""
        with self._connections:
            if len(self._open) >= MOST_CONNECTIONS:
                oldest = next((line for line, is_in in self._open.items() if not is_in), None)
                if oldest is not None:
                    del self._open[oldest]
                    _hang_up(oldest)
            there_is_room = len(self._open) < MOST_CONNECTIONS
            if there_is_room:
                self._open[request] = False
        if there_is_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection until it closes."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._connections:
                self._open.pop(request, None)

    def let_in(self, request: Any) -> None:
        """Note that a message on this connection has passed the checks."""
        with self._connections:
            if request in self._open:
                self._open[request] = True

    def is_in(self, request: Any) -> bool:
        """Tell whether a message on this connection has passed the checks."""
        with self._connections:
            return self._open.get(request, False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Let go of a connection that broke; nothing is written."""


def _hang_up(line: socket) -> None:
    """End a connection whose thread may be waiting on it."""
    with suppress(OSError):
        line.shutdown(SHUT_RDWR)


@final
class _Line(RawIOBase):
    """Bytes of a connection, by deadlines that a drop every now and then does not put off."""

    def __init__(self, line: socket, is_in: Callable[[], bool]) -> None:
        self._line, self._is_in = line, is_in
        self._born = monotonic()
        self._begun: float | None = None

    def begin(self) -> None:
        """Wait for another request."""
        self._begun = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        now = monotonic()
        limits = [SECONDS if self._begun is None else self._begun + REQUEST_SECONDS - now]
        if not self._is_in():
            limits.append(self._born + SECONDS - now)
        if min(limits) <= 0:
            raise TimeoutError("the request takes too long")
        self._line.settimeout(min(limits))
        count = self._line.recv_into(buffer)
        self._begun = monotonic() if self._begun is None else self._begun
        return count


@final
class _Answer(BytesIO):
    """An answer: collected, and sent as a whole within the time there is."""

    def __init__(self, line: socket) -> None:
        super().__init__()
        self._line = line

    def flush(self) -> None:
        content = self.getvalue()
        self.seek(0)
        self.truncate()
        if content:
            self._line.settimeout(REQUEST_SECONDS)  # of all of it: see socket.sendall
            self._line.sendall(content)


class PageHandler(BaseHTTPRequestHandler):
    """One connection: files of the page, and messages through its door."""

    server: PageServer
    files: ClassVar[Mapping[str, tuple[str, str]]]
    door: ClassVar[str] = "/message"
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "dynsys", ""
    disable_nagle_algorithm = True

    @abstractmethod
    def answer(self, body: bytes) -> None:
        """Answer a message that has passed the checks."""

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self.wfile.close()
        self._line = _Line(self.connection, lambda: self.server.is_in(self.request))
        self.rfile, self.wfile = BufferedReader(self._line), _Answer(self.connection)

    def handle_one_request(self) -> None:
        self._line.begin()
        super().handle_one_request()

    def do_GET(self) -> None:
        if problem := self.server.access.host_problem(self.headers):
            self.refuse(421, problem)
        elif self.path not in self.files:
            self.refuse(404, "there is no such page")
        else:
            file, kind = self.files[self.path]
            self.send(200, resources.files("problems").joinpath(file).read_bytes(), kind)

    def do_POST(self) -> None:
        access = self.server.access
        if problem := access.host_problem(self.headers):
            self.refuse(421, problem)
        elif self.path != self.door:
            self.refuse(404, "there is no such door")
        elif problem := access.message_problem(self.headers):
            self.refuse(403, problem)
        elif problem := access.token_problem(self.headers):
            self.refuse(401, problem)
        else:
            self.server.let_in(self.request)
            self._read()

    def _read(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self.refuse(411, "the length of the message is missing")
        elif len(length) > 9 or int(length) > MOST_BYTES:
            self.refuse(413, f"the message is larger than {MOST_BYTES} bytes")
        else:
            self.answer(self.rfile.read(int(length)))

    def refuse(self, status: int, reason: str) -> None:
        """Answer with an error, and let go of the connection."""
        self.close_connection = True
        self.send(status, json.dumps({"error": reason}).encode(), "application/json")

    def send(self, status: int, content: bytes, kind: str) -> None:
        """Answer."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_answer()
        self.wfile.write(content)
        self.wfile.flush()

    def end_answer(self) -> None:
        """Send the headers that every answer has."""
        for key, value in HEADERS:
            self.send_header(key, value)
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""
