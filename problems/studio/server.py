"""The web server: a fixed set of files, and one door for messages.

A message is read only if :class:`AccessRules` let it pass and it is as :data:`ACTIONS` says; a
session does what it asks. All else is refused.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
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
from typing import Any, TypeAlias, final

from dynsys.errors import DynsysError, RefusedError
from problems.studio.session import Session

__all__ = [
    "ACTIONS",
    "HEADER",
    "MOST_BYTES",
    "TOKEN_HEADER",
    "AccessRules",
    "StudioServer",
    "is_loopback",
    "parse_message",
]

Facts: TypeAlias = dict[str, Any]

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
        given = headers.get_all("Host") or []
        if len(given) != 1:
            return "exactly one Host header is needed"
        name = given[0].rpartition(":")[0] if _has_port(given[0]) else given[0]
        if not is_loopback(self.host):
            return ""  # any name may be ours; the token decides
        if name.lower() not in (*LOOPBACK_NAMES, self.host.lower()):
            return "the Host header does not name this machine"
        return ""

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
            return "the token is missing or wrong; open the address that studio printed"
        return ""


def _has_port(host: str) -> bool:
    end = host.rpartition(":")[2]
    return ":" in host and end.isdecimal() and not host.endswith("]")


# ---- messages: the actions there are, and what each carries --------------------------------

MOST_BYTES = 64 * 2**10
"""Largest message that is read."""
LONGEST_NAME = 200
MOST_NUMBERS = 4096
MOST_BUDGET = 60
MOST_SECONDS = 600
Check: TypeAlias = Callable[[Any], Any]


def _name(value: Any) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= LONGEST_NAME:
        raise ValueError(f"must be a name of 1 to {LONGEST_NAME} characters")
    if not value.isprintable():
        raise ValueError("must be printable")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError("must be a number")
    if not abs(value) <= 1e12:  # NaN too; a whole number may have any number of digits
        raise ValueError("must be a finite number")
    return float(value)


def _numbers(value: Any) -> list[float]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_NUMBERS:
        raise ValueError(f"must be a list of 1 to {MOST_NUMBERS} numbers")
    return [_number(x) for x in value]


def _triple(value: Any) -> list[float]:
    if not isinstance(value, list) or len(value) != 3:
        raise ValueError("must be a list of 3 numbers")
    return [_number(x) for x in value]


def _budget(value: Any) -> float:
    if not 0 < (x := _number(value)) <= MOST_BUDGET:
        raise ValueError(f"must be a number of readings, 1 to {MOST_BUDGET}")
    return x


def _seconds(value: Any) -> float:
    if not 0 < (x := _number(value)) <= MOST_SECONDS:
        raise ValueError(f"must be a number of seconds, at most {MOST_SECONDS}")
    return x


def _count(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError("must be a whole number, not negative")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError("must be true or false")
    return value


def _one_of(*words: str) -> Check:
    def check(value: Any) -> str:
        if value not in words:
            raise ValueError(f"must be one of {', '.join(words)}")
        return str(value)

    return check


ACTIONS: Mapping[str, Mapping[str, Check]] = MappingProxyType(
    {
        "hello": {},
        "look": {},
        "add": {"kind": _name, "place": _name},
        "remove": {"name": _name},
        "move": {"name": _name, "body": _name},
        "place": {"name": _name, "xyz": _triple, "rpy": _triple},
        "noise": {"name": _name, "std": _numbers},
        "undo": {},
        "redo": {},
        "pose": {"values": _numbers},
        "posture": {"which": _one_of("first", "neutral", "random")},
        "repair": {"number": _count},
        "drop": {"number": _count},
        "suggest": {"goal": _one_of("torque", "external_wrench"), "budget": _budget},
        "adopt": {},
        "compile": {},
        "search": {"seconds": _seconds},
        "stop": {},
        "looks": {},
        "files": {},
        "save": {"file": _name, "overwrite": _flag},
        "open": {"file": _name},
        "open_log": {"file": _name},
        "close_log": {},
        "seek": {"sample": _count},
    }
)
"""Fields of every action; all of them are required, and no others are allowed."""


def parse_message(body: bytes) -> tuple[str, str, dict[str, Any]]:
    """Session, action and checked fields of a message.

    Raises
    ------
    RefusedError
        if it is too large, no JSON object, or anything in it is not as :data:`ACTIONS` says.
    """
    if len(body) > MOST_BYTES:
        raise RefusedError(f"the message is larger than {MOST_BYTES} bytes")
    try:
        message = json.loads(body)
    except (ValueError, RecursionError):
        raise RefusedError("the message is no JSON") from None
    if not isinstance(message, dict):
        raise RefusedError("the message is no JSON object")
    session, action = message.pop("session", ""), message.pop("action", None)
    if not isinstance(session, str) or len(session) > LONGEST_NAME:
        raise RefusedError("session: must be a short text")
    if not isinstance(action, str) or action not in ACTIONS:
        raise RefusedError(f"there is no such action; use {', '.join(ACTIONS)}")
    fields = ACTIONS[action]
    if set(message) != set(fields):
        listed = ", ".join(fields) or "nothing"
        raise RefusedError(f"{action}: takes {listed}, got {', '.join(sorted(message))[:200]}")
    checked: dict[str, Any] = {}
    for key, check in fields.items():
        try:
            checked[key] = check(message[key])
        except ValueError as error:
            raise RefusedError(f"{action}: {key} {error}") from None
    return session, action, checked


# ---- the server ----------------------------------------------------------------------------


_CONTENT = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_NAMES = (
    "index.html",
    "studio.css",
    "studio.js",
    "picture.js",
    "solids.js",
    "panels.js",
    "icon.svg",
)
PAGE: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "/" if name == "index.html" else f"/{name}": (name, _CONTENT[name.partition(".")[2]])
        for name in _NAMES
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
"""Longest silence between two requests, and longest life of a connection on which no message
has passed the checks (the token among them)."""
REQUEST_SECONDS = 10.0
"""Longest time that a request may take to arrive, or an answer to leave: however many drops it
comes in."""


@final
class StudioServer(ThreadingHTTPServer):
    """Serves the page; every page gets a session of its own.

    Parameters
    ----------
    access : who may talk to it, and the host to bind to.
    port : to bind to; 0 lets the system choose.
    begin : gives the session of a new page; a name for it is offered.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = MOST_CONNECTIONS

    def __init__(self, access: AccessRules, port: int, begin: Callable[[str], Session]) -> None:
        self.access = access
        self._begin = begin
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = Lock()
        self._open: dict[Any, bool] = {}  # connections, oldest first: have they been let in?
        if ":" in access.host:
            self.address_family = AF_INET6
        try:
            super().__init__((access.host, port), _Handler)
        except OSError as error:
            raise RefusedError(
                f"cannot listen on {access.host} port {port}: {error.strerror or error};"
                " choose another --port"
            ) from None

    @property
    def address(self) -> str:
        """Address of the page, with the token where there is one."""
        host = self.access.host if self.access.host not in ("0.0.0.0", "::") else "localhost"
        host = f"[{host}]" if ":" in host else host
        token = f"#token={self.access.token}" if self.access.token else ""
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
        """Take a connection; where there is no room, the oldest that was not let in goes."""
        with self._lock:
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
            with self._lock:
                self._open.pop(request, None)

    def let_in(self, request: Any) -> None:
        """Note that a message on this connection has passed the checks."""
        with self._lock:
            if request in self._open:
                self._open[request] = True

    def is_in(self, request: Any) -> bool:
        """Tell whether a message on this connection has passed the checks."""
        with self._lock:
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


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: StudioServer
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "dynsys-studio", ""
    disable_nagle_algorithm = True

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
            self._refuse(421, problem)
        elif self.path not in PAGE:
            self._refuse(404, "there is no such page")
        else:
            name, kind = PAGE[self.path]
            content = (resources.files("problems.studio") / "page" / name).read_bytes()
            self._send(200, content, kind)

    def do_POST(self) -> None:
        access = self.server.access
        if problem := access.host_problem(self.headers):
            self._refuse(421, problem)
        elif self.path != "/message":
            self._refuse(404, "there is no such door")
        elif problem := access.message_problem(self.headers):
            self._refuse(403, problem)
        elif problem := access.token_problem(self.headers):
            self._refuse(401, problem)
        else:
            self.server.let_in(self.request)
            self._answer()

    def _answer(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or "Transfer-Encoding" in self.headers:
            self._refuse(411, "the length of the message is missing")
            return
        if len(length) > 9 or int(length) > MOST_BYTES:
            self._refuse(413, f"the message is larger than {MOST_BYTES} bytes")
            return
        body = self.rfile.read(int(length))
        try:
            name, action, fields = parse_message(body)
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
