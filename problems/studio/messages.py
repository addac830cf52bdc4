"""Messages of the page: the actions there are and what each carries; all else is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from problems.studio.folder import RefusedError

__all__ = ["ACTIONS", "MOST_BYTES", "parse_message"]

MOST_BYTES = 64 * 2**10
"""Largest message that is read."""
LONGEST_NAME = 200
MOST_NUMBERS = 4096
MOST_BUDGET = 60

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
    if not np.isfinite(value) or abs(value) > 1e12:
        raise ValueError("must be a finite number")
    return float(value)


def _numbers(value: Any) -> list[float]:
    if not isinstance(value, list) or not 0 < len(value) <= MOST_NUMBERS:
        raise ValueError(f"must be a list of 1 to {MOST_NUMBERS} numbers")
    return [_number(x) for x in value]


def _budget(value: Any) -> float:
    if not 0 < (x := _number(value)) <= MOST_BUDGET:
        raise ValueError(f"must be a number of readings, 1 to {MOST_BUDGET}")
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
