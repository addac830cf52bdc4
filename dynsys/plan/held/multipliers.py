"""Forces of constraints: the last pivots of the symmetric elimination, in planned order.

    Lambda^-1 force = -acceleration of the rows without forces,    Lambda^-1 = J H^-1 J^T

is positive semidefinite. Rows that the others imply (a planar four-bar closed in space, two
hands on one box) make it singular at every state; which ones is found once, at configurations
where the constraints hold, with the order of the others: at each step the row whose pivot keeps
most of its own inertia. With K the rows kept and R the redundant ones,

    Lambda^-1_KK = L d L^T          Lambda^-1_RK = C Lambda^-1_KK
    force_K + C^T force_R = -Lambda_KK acceleration_K = f        every solution moves the same
    force_R = (1 + C C^T)^-1 C f,   force_K = f - C^T force_R    the smallest of them

The pivots of 1 + C C^T are at least one. Those of Lambda^-1 are watched: where one keeps less
than 1 / LIMIT of its diagonal entry, or of a millionth of what that usually is, a rank is lost
and dense algebra takes over. So it does where redundant rows contradict the others.

Inverse dynamics knows all qdd. Its constraints act on freedoms U without a drive,

    J_U^T force = torque_U          force = J_U (J_U^T J_U)^-1 torque_U

the smallest forces that carry them: the same elimination of the semidefinite J_U^T J_U.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, final

import numpy as np

from dynsys.errors import PlanMismatchError
from dynsys.model.constraints import Constraint, row_labels
from dynsys.model.natural import NaturalUnits
from dynsys.model.tree import KinematicTree
from dynsys.plan.pivots import PlannedPivot
from dynsys.plan.symmetric import SymmetricStep
from dynsys.recursive.aba import factor_ldl, solve_ldl
from dynsys.recursive.constraint_rows import DenseRows, closed_configurations, dense_rows
from dynsys.recursive.crba import crba_scalars
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = ["LIMIT", "HeldBy", "WatchedForces", "smallest_solution"]

LIMIT = 1e8
"""A pivot that keeps less than 1 / LIMIT of its diagonal entry counts as a lost rank."""
SHARE = 1e-6
"""Part of a row's usual diagonal entry that is added to it: whole rows may vanish."""
IMPLIED = 1e-11
"""A row whose pivot keeps less than this part at most configurations is implied by others."""
FLOOR = 100.0
"""Square of the acceleration (rad/s^2, m/s^2) in parts of which rows contradict at least."""
ROUNDING = 1e-12
"""Entries of J below this part of natural units are what terms that cancel leave."""
SAMPLES = 7


class WatchedForces(NamedTuple):
    """A solution, and what is watched of it.

    ``shares`` : diagonal entry (and floor) over pivot, one or more, of each kept row.
    ``contradictions``, ``sizes`` : of each redundant row what it misses the others by, and the
    squared size of the terms.
    """

    x: ScalarArray
    shares: list[Any]
    contradictions: list[Any]
    sizes: list[Any]


def smallest_solution(
    A: ScalarArray,
    b: ScalarArray,
    kept: Sequence[int],
    redundant: Sequence[int],
    floors: Array,
) -> WatchedForces:
    """Smallest x (n,) with A x = b: A (n, n) semidefinite, by its lower triangle; see above.

    ``floors`` (n,) are what diagonal entries have beyond themselves where pivots are watched.
    """
    lower, upper = np.tril_indices(len(A))
    full = A.copy()
    full[upper, lower] = A[lower, upper]
    order, rest = list(kept), list(redundant)
    F = factor_ldl(full[np.ix_(order, order)])
    found = solve_ldl(F, b[order])
    x = np.zeros(len(A), dtype=object)
    contradictions: list[Any] = []
    size = FLOOR + sum((value * value for value in b), start=0.0)
    if rest:
        C = np.array([solve_ldl(F, full[row, order]) for row in rest])
        contradictions = list(b[rest] - C @ b[order])
        x[rest] = solve_ldl(factor_ldl(C @ C.T + np.eye(len(rest))), C @ found)
        found = found - C.T @ x[rest]
    x[order] = found
    shares = [F[i, i] * (full[row, row] + floors[row]) for i, row in enumerate(order)]
    return WatchedForces(x, shares, contradictions, [size] * len(rest))


@final
@dataclass(frozen=True, eq=False)
class HeldBy:
    """Constraints of a robot in one problem of dynamics.

    Parameters
    ----------
    known : (nv,) freedoms whose qdd is given.
    undriven : (nv,) freedoms without a drive, where all qdd are given.
    """

    robot: KinematicTree
    constraints: tuple[Constraint, ...]
    known: BoolArray
    undriven: BoolArray

    @property
    def is_inverse(self) -> bool:
        """Whether all accelerations are given: forces are then chosen, not caused."""
        return bool(self.known.all())

    @cached_property
    def rows(self) -> list[str]:
        """Names of the rows that are eliminated: forces, or freedoms without a drive."""
        if not self.is_inverse:
            return row_labels(self.constraints)
        slices = zip(self.robot.joint_names, self.robot.v_slices(), strict=True)
        names = {k: name for name, v in reversed(list(slices)) for k in range(v.start, v.stop)}
        return [f"{names[k]}[{k}]" for k in np.flatnonzero(self.undriven).tolist()]

    @cached_property
    def _least(self) -> Array:
        """Entries (m, nv) of J that count as zero: a row may be one that nothing moves."""
        natural = NaturalUnits(self.robot)
        units = np.concatenate([natural.rows(one) for one in self.constraints])
        return np.asarray(ROUNDING * units[:, None] / natural.motion)

    def dense(self, q: Array, qd: Array | None = None) -> DenseRows:
        """Rows of all constraints in numbers, at rest by default; J without rounding."""
        still = np.zeros(self.robot.nv)
        rows = dense_rows(self.robot, self.constraints, q, still if qd is None else qd)
        return rows._replace(J=np.where(np.abs(rows.J) > self._least, rows.J, 0.0))

    def moving(self, states: Array, seed: int) -> Array:
        """States (count, nq + nv) with q and qd such that constraints hold, if possible."""
        found, nq = states.copy(), self.robot.nq
        closed = closed_configurations(self.robot, self.constraints, len(states), seed)
        for state, q in zip(found, closed, strict=False):
            J = self.dense(q).J
            state[:nq] = q
            state[nq:] -= np.linalg.lstsq(J, J @ state[nq:], rcond=1e-9)[0]
        return found

    def matrix(self, q: Array) -> Array:
        """The semidefinite matrix (n, n) that is eliminated, at a configuration."""
        J = self.dense(q).J
        if self.is_inverse:
            return np.asarray(J[:, self.undriven].T @ J[:, self.undriven])
        free = ~self.known
        H = crba_scalars(self.robot, q)[np.ix_(free, free)]
        return np.asarray(J[:, free] @ np.linalg.solve(H, J[:, free].T))

    @cached_property
    def _sampled(self) -> Array:
        """Matrices (states, n, n) at configurations where the constraints hold."""
        states = closed_configurations(self.robot, self.constraints, SAMPLES, 5)
        return np.array([self.matrix(q) for q in states])

    @cached_property
    def floors(self) -> Array:
        """A small part (n,) of what the diagonal entries usually are."""
        return np.asarray(SHARE * np.median(np.einsum("kii->ki", self._sampled), axis=0))

    @cached_property
    def _order(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]:
        """Kept rows in their order, redundant rows, and the least share each pivot keeps."""
        A = self._sampled
        own = np.einsum("kii->ki", A)
        moved = own > 1e-24 * own.max(initial=0.0)  # rows that nothing can move stay zero
        size = np.where(moved, np.sqrt(np.where(moved, own, 1.0)), np.inf)
        A = A / (size[:, :, None] * size[:, None, :])
        left, kept, shares = list(range(A.shape[1])), [], []
        while left:
            share = np.einsum("kii->ki", A)[:, left]
            typical = np.median(share, axis=0)
            # of those that stay, the one whose worst state is best; the first of equals
            least = np.round(share.min(axis=0), 6) + 1e-9 * typical
            worst = np.where(typical > IMPLIED, least, -1.0)
            best = int(np.argmax(worst))
            if worst[best] < 0:
                break
            row = left.pop(best)
            kept.append(row)
            shares.append(float(share[:, best].min()))
            pivot = np.maximum(A[:, row, row], IMPLIED)
            A = A - A[:, :, row, None] * A[:, None, row, :] / pivot[:, None, None]
        return tuple(kept), tuple(left), tuple(shares)

    @cached_property
    def steps(self) -> tuple[SymmetricStep, ...]:
        """Steps of the rows, behind those of the tree."""
        kept, redundant, _ = self._order
        return (
            *(SymmetricStep("multiplier", row) for row in kept),
            *(SymmetricStep("redundant", row) for row in redundant),
        )

    @property
    def redundant(self) -> tuple[int, ...]:
        """Rows that the others imply at almost every configuration."""
        return self._order[1]

    def pivots(self, steps: Sequence[SymmetricStep]) -> tuple[PlannedPivot, ...]:
        """Pivots of the rows in words, with the least share that they keep at samples."""
        shares = dict(zip(self._order[0], self._order[2], strict=True))
        what = "hold of freedom" if self.is_inverse else "mobility along"
        return tuple(
            PlannedPivot(
                k, f"{what} {self.rows[step.body]!r}", "sampling", shares.get(step.body)
            )
            for k, step in enumerate(steps)
            if step.kind == "multiplier"
        )

    def split(
        self, steps: Sequence[SymmetricStep]
    ) -> tuple[tuple[SymmetricStep, ...], tuple[int, ...], tuple[int, ...]]:
        """Steps of the tree, rows kept in their order, redundant rows.

        Raises
        ------
        PlanMismatchError
            unless they are all rows, each once, behind the steps of the tree.
        """
        kinds = ("multiplier", "redundant")
        tree = tuple(step for step in steps if step.kind not in kinds)
        rows = [step.body for step in steps if step.kind in kinds]
        if sorted(rows) != list(range(len(self.rows))) or tree != tuple(steps[: len(tree)]):
            raise PlanMismatchError(
                f"the steps of the plan cannot be executed for robot {self.robot.name!r}: the"
                f" rows of its constraints must stand behind the tree, each once ({rows}). Make"
                " a new plan"
            )
        kept = tuple(step.body for step in steps if step.kind == "multiplier")
        return tree, kept, tuple(step.body for step in steps if step.kind == "redundant")
