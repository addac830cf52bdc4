"""Functions that campaigns of the tests run in other processes; they leave marks."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["failing", "marked", "square"]


def square(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Mark the computation, wait a little, return a square."""
    marked(payload, "begun")
    time.sleep(float(payload.get("seconds", 0)))
    while (
        payload.get("may_be_held")
        and (Path(payload["marks"]) / f"hold {payload['x']}").exists()
    ):
        time.sleep(0.01)
    victim = payload.get("dies_once")
    if victim and not (Path(payload["marks"]) / "died").exists():
        (Path(payload["marks"]) / "died").touch()
        os.kill(os.getpid(), signal.SIGKILL)
    marked(payload, "done")
    return {"square": payload["x"] ** 2}


def failing(payload: Mapping[str, Any]) -> dict[str, Any]:
    raise ValueError(f"no square of {payload['x']}")


def marked(payload: Mapping[str, Any], what: str) -> None:
    """Append a line with a single write, which no other process can split."""
    with (Path(payload["marks"]) / what).open("a") as file:
        file.write(f"{payload['x']} {os.getpid()}\n")
