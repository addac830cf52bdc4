"""A robot in axial screws, and the papers' algorithms run on it over counting scalars.

Topology as given, joints revolute about z, everything else general. The child of a node that
gets Denavit-Hartenberg frames is two screws away (x, then z with the joint angle); the others
are three (z, x, z). The same robot as a KinematicTree checks the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from dynsys.model.joints import Free, Revolute
from dynsys.model.spatial import Transform
from dynsys.model.synthetic import cloud_inertia
from dynsys.model.tree import Body, KinematicTree
from dynsys.operational.rjk import Kind, plan_blocks
from dynsys.program.counting import OperationCount, Tally
from dynsys.types import Array, ScalarArray
from experiments.axial_screws import (
    Rigid,
    Screw,
    Trigonometry,
    congruence,
    constant_angle,
    force_back,
    general_force_back,
    general_motion,
    mobility_forward,
    motion_forward,
    rigid_back,
)
from experiments.featherstone2005_counts import dh_nodes

__all__ = ["ScrewRobot", "dot_tau", "propagator", "times_tau", "without_joint"]

Z = 2
REST = (0, 1, 3, 4, 5)


@final
class ScrewRobot:
    """Floating base (body 0) with revolute joints in screw form.

    ``base_frames`` places the DH child of the floating base right on it (three parameters
    zero), which saves [BIS] eq. (21) some operations; [OSI] table 4 does not make use of it.
    """

    def __init__(self, parent: Sequence[int], *, base_frames: bool, seed: int = 0) -> None:
        if parent[0] != -1 or any(p < 0 for p in parent[1:]):
            raise ValueError("body 0 must be the only one on the base")
        rng = np.random.default_rng(seed)
        self.parent = list(parent)
        self.dh = dh_nodes(np.array(parent))
        n = len(parent)
        twist, turn = rng.uniform(-3, 3, n), rng.uniform(-3, 3, n)
        length, offset, lift = rng.uniform(0.05, 0.4, (3, n))
        self.angles = rng.uniform(-3, 3, n)
        self.inertias = [cloud_inertia(rng) for _ in parent]
        self.constant: list[list[Screw]] = []
        self.shift = offset
        for i, p in enumerate(parent):
            fixed = [Screw(0, constant_angle(twist[i]), float(length[i]))]
            if not self.dh[i]:
                fixed.insert(0, Screw(Z, constant_angle(turn[i]), float(lift[i])))
            elif base_frames and p == 0:
                fixed, self.shift[i] = [], 0.0
            self.constant.append(fixed)

    # ---- the same robot as a model -------------------------------------------------------

    def tree(self) -> KinematicTree:
        """The robot as a KinematicTree; its q is :meth:`q`."""
        bodies = [Body("body_0", -1, Free(), inertia=self.inertias[0])]
        for i in range(1, len(self.parent)):
            placement = Transform.identity()
            for screw in self.constant[i]:
                placement = placement.then(screw.transform())
            placement = placement.then(Transform(np.eye(3), np.array([0, 0, self.shift[i]])))
            bodies.append(
                Body(f"body_{i}", self.parent[i], Revolute(), placement, self.inertias[i])
            )
        return KinematicTree("screws", bodies)

    def q(self) -> Array:
        """Position (nq,) of the tree: the base at the origin, all joints at random angles."""
        return np.concatenate([[0.0, 0, 0, 0, 0, 0, 1.0], self.angles[1:]])

    def _joint_screw(self, i: int, tally: Tally | None) -> Screw:
        c, s = np.cos(self.angles[i]), np.sin(self.angles[i])
        if tally is None:
            return Screw(Z, constant_angle(self.angles[i]), float(self.shift[i]))
        counted = tally.scalars([c, s])
        return Screw(Z, Trigonometry.of(counted[0], counted[1]), float(self.shift[i]))

    def _general(self, i: int) -> Transform:
        whole = Transform.identity()
        for screw in (*self.constant[i], self._joint_screw(i, None)):
            whole = whole.then(screw.transform())
        return whole

    # ---- [BIS] section 5 -----------------------------------------------------------------

    def inertia_matrix(self) -> tuple[Array, OperationCount]:
        """H by the listing of [BIS] section 5, and the operations it executed."""
        tally, n = Tally(), len(self.parent)
        composite = [
            Rigid(
                tally.scalars([x.mass])[0],
                tally.scalars(x.first_moment),
                tally.scalars(x.about_origin),
            )
            for x in self.inertias
        ]
        H = np.zeros((n + 5, n + 5), dtype=object)
        screws = {i: self._joint_screw(i, tally) for i in range(1, n)}
        for i in range(n - 1, 0, -1):
            f = tally.scalars(composite[i].column(Z).astype(np.float64))  # its 0 is not used
            H[i + 5, i + 5] = f[Z]
            moved = rigid_back(composite[i], screws[i])
            for screw in reversed(self.constant[i]):
                moved = rigid_back(moved, screw)
            composite[self.parent[i]] = composite[self.parent[i]].plus(moved)
            j = i
            while j > 0:
                f = self._carry_force(j, f, screws[j])
                j = self.parent[j]
                columns = slice(0, 6) if j == 0 else slice(j + 5, j + 6)
                H[i + 5, columns] = H[columns, i + 5] = f if j == 0 else f[Z]
        H[:6, :6] = composite[0].matrix()
        return H.astype(np.float64), tally.count

    def _carry_force(self, j: int, f: ScalarArray, screw: Screw) -> ScalarArray:
        if not self.dh[j]:
            whole = self._general(j)
            return general_force_back(f, whole.E, whole.r)
        for step in (screw, *reversed(self.constant[j])):
            f = force_back(f, step)
        return f

    # ---- [OSI] figure 14 -----------------------------------------------------------------

    def omega(
        self, bodies: Sequence[int]
    ) -> tuple[dict[tuple[int, int], Array], OperationCount, OperationCount]:
        """Needed blocks of Omega, and the operations executed for the two halves of the work.

        As the paper counts, the products of sine and cosine are known and the 6x6 inverse of
        the floating base is one division.
        """
        tally = Tally()
        tau, inverse, base = self._articulate(tally)
        first_half = tally.count
        plan, blocks = plan_blocks(self.parent, bodies), []
        for i, j, kind, source in zip(plan.i, plan.j, plan.kind, plan.source, strict=True):
            if source < 0:
                blocks.append(base)
            elif kind == Kind.DIAGONAL:
                blocks.append(self._diagonal(i, blocks[source], tau[i], inverse[i]))
            else:
                block = blocks[source].T if kind == Kind.BRANCHES_TRANSPOSED else blocks[source]
                block = self._carry_rows(j, block, tau[j])
                if kind != Kind.SUPPORTING:
                    block = self._carry_rows(i, block.T, tau[i]).T
                blocks.append(block)
        values = {pair: blocks[k].astype(np.float64) for pair, k in plan.place.items()}
        return values, first_half, tally.count - first_half

    def _articulate(self, tally: Tally) -> tuple[list[ScalarArray], list[Any], ScalarArray]:
        n = len(self.parent)
        P = [tally.scalars(x.matrix()) for x in self.inertias]
        tau: list[ScalarArray] = [np.zeros(6)] * n
        inverse: list[Any] = [0] * n
        for i in range(n - 1, 0, -1):
            inverse[i] = 1 / P[i][Z, Z]
            tau[i] = propagator(P[i], inverse[i])
            Ia = without_joint(P[i], tau[i])
            for screw in (self._joint_screw(i, None), *reversed(self.constant[i])):
                Ia = congruence(Ia, screw)
            above = P[self.parent[i]]
            for r in range(6):
                for c in range(r + 1):
                    above[r, c] = above[c, r] = above[r, c] + Ia[r, c]
        tally.divisions += 1
        return tau, inverse, tally.scalars(np.linalg.inv(P[0].astype(np.float64)))

    def _diagonal(
        self, i: int, parent_block: ScalarArray, tau: ScalarArray, inverse: Any
    ) -> ScalarArray:
        block = parent_block
        for screw in (*self.constant[i], self._joint_screw(i, None)):
            block = mobility_forward(block, screw)
        column = times_tau(block, tau)
        out = block.copy()
        out[:, Z] = out[Z, :] = column  # its own element Z is replaced next
        out[Z, Z] = dot_tau(tau, column) + inverse
        return out

    def _carry_rows(self, j: int, block: ScalarArray, tau: ScalarArray) -> ScalarArray:
        """Block times phi_j tau_j: every row a motion vector."""
        if self.dh[j]:
            rows = list(block)
            for screw in (*self.constant[j], self._joint_screw(j, None)):
                rows = [motion_forward(row, screw) for row in rows]
        else:
            whole = self._general(j)
            back = whole.inverse().r
            rows = [general_motion(row, whole.E, back) for row in block]
        out = np.array(rows)
        out[:, Z] = times_tau(out, tau)
        return out


def propagator(P: ScalarArray, inverse: Any) -> ScalarArray:
    """Column Z of tau-bar (6,), its element Z a known zero: 5m."""
    tau = np.zeros(6, dtype=object)
    for r in REST:
        tau[r] = -(P[r, Z] * inverse)
    return tau


def without_joint(P: ScalarArray, tau: ScalarArray) -> ScalarArray:
    """tau-bar P (6, 6), symmetric, row and column Z known to be zero: 15m + 15a."""
    Ia = np.zeros((6, 6), dtype=object)
    for a, r in enumerate(REST):
        for c in REST[: a + 1]:
            Ia[r, c] = Ia[c, r] = P[r, c] + tau[r] * P[Z, c]
    return Ia


def dot_tau(tau: ScalarArray, v: ScalarArray) -> Any:
    """tau . v over the five elements of tau that are not zero: 5m + 4a."""
    total = tau[0] * v[0]
    for k in (1, 3, 4, 5):
        total = total + tau[k] * v[k]
    return total


def times_tau(block: ScalarArray, tau: ScalarArray) -> ScalarArray:
    """Column Z of block times tau-bar (6,): 30m + 24a."""
    return np.array([dot_tau(tau, row) for row in block])
