"""What happened at a numerical edge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

__all__ = ["Verdict"]


@final
@dataclass(frozen=True)
class Verdict:
    """What happened at an edge: errors relative to the largest entry of the answer."""

    family: str
    case: str
    task: str
    covered: bool
    true_error: float | None = None
    bound: float | None = None
    condition: float | None = None
    error: str | None = None
