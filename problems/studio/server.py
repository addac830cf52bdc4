"""Studio's page: its files, and the messages there are.

A message is read only if it passes the checks of :mod:`problems.web` and is as :data:`ACTIONS`
says; a session does what it asks. All else is refused.
"""

from __future__ import annotations

import json
import secrets
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from types import MappingProxyType
from typing import Any, TypeAlias, final

from dynsys.errors import DynsysError, RefusedError
from problems.studio.session import Session
from problems.web import MOST_BYTES, AccessRules, PageHandler, PageServer, page_files

__all__ = ["ACTIONS", "PAGE", "StudioServer", "parse_message"]

Facts: TypeAlias = dict[str, Any]

# ---- messages: the actions there are, and what each carries --------------------------------

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

PAGE = page_files(
    *(
        f"studio/page/{name}"
        for name in (
            "index.html",
            "studio.css",
            "common.js",
            "studio.js",
            "picture.js",
            "solids.js",
            "panels.js",
            "icon.svg",
        )
    )
)
MOST_SESSIONS = 8
"""Pages that are remembered; the one used longest ago goes first."""


@final
class StudioServer(PageServer):
    """Serves the page; every page gets a session of its own.

    Parameters
    ----------
    access : who may talk to it, and the host to bind to.
    port : to bind to; 0 lets the system choose.
    begin : gives the session of a new page; a name for it is offered.
    """

    def __init__(self, access: AccessRules, port: int, begin: Callable[[str], Session]) -> None:
        self._begin = begin
        self._sessions: OrderedDict[str, Session] = OrderedDict()
        self._lock = Lock()
        super().__init__(access, port, _Handler)

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


@final
class _Handler(PageHandler):
    """One connection."""

    server: StudioServer
    files = PAGE

    def answer(self, body: bytes) -> None:
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
        self.send(status, json.dumps(facts, allow_nan=False).encode(), "application/json")
