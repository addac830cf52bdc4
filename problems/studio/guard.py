"""Who may talk to the server: checks of addresses, Host and Origin headers, and the token.

A page of another site cannot reach a server on loopback by pointing a name of its own there
(DNS rebinding): the Host header must name this machine. It cannot post to it either: messages
are JSON with a header of our own, which browsers send across sites only after asking, and the
Origin must be ours. Where the server is reachable from other machines, every message must carry
the token.
"""

from __future__ import annotations

import hmac
import ipaddress
from dataclasses import dataclass
from email.message import Message
from typing import final

from problems.studio.folder import RefusedError

__all__ = ["HEADER", "TOKEN_HEADER", "Guard", "is_loopback"]

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
class Guard:
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
