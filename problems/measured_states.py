"""States with their readings: what an estimate was made from, and can be made from again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from dynsys.errors import DynsysError
from dynsys.model.tree import read_only
from dynsys.types import Array

if TYPE_CHECKING:
    from problems.estimation import Estimation
    from problems.posterior import AbstractPosterior

__all__ = ["MeasuredStates"]


@final
@dataclass(frozen=True, eq=False)
class MeasuredStates:
    """Positions (N, nq), velocities (N, nv) and rows of readings (N, m), NaN where missing.

    Called with the number of a state, it solves that state. ``is_batch`` is False for the one
    state of :meth:`Estimation.solve`. The arrays are copies: what is asked of an estimate later
    must not depend on what became of the caller's.
    """

    problem: Estimation
    q: Array
    qd: Array
    rows: Array
    is_batch: bool

    def __post_init__(self) -> None:
        for name in ("q", "qd", "rows"):
            object.__setattr__(self, name, read_only(np.array(getattr(self, name))))

    def at(self, k: int) -> tuple[Array, Array, Array]:
        """Return q, qd and rows of state k."""
        return self.q[k], self.qd[k], self.rows[k]

    def __call__(self, k: int) -> AbstractPosterior:
        """All that the readings of state k say."""
        q, qd, rows = self.at(k)
        if not self.is_batch:
            return self.problem.posterior(q, qd, rows)
        robot = self.problem.robot
        try:
            return self.problem.posterior(robot.check_q(q), robot.check_v(qd, "qd"), rows)
        except DynsysError as error:
            raise type(error)(f"state {k}: {error}") from None
