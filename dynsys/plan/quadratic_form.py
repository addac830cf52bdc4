"""A quadratic form  1/2 d^T M d + p^T d  by blocks, and the three steps that eliminate from it.

Its stationary point  M d + p = 0  is the motion of the robot; the unknowns d are accelerations
of bodies and joints, and forces of constraints, whose own block is zero at first. Scalars are
of any kind: numbers, or nodes of the expression graph.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dynsys.model.spatial import Transform, congruence
from dynsys.recursive.aba import along_axes, factor_ldl, solve_ldl, without_joint
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = ["Key", "QuadraticForm", "Row"]

Key = tuple[str, int]
"""An unknown: ("body", number) for accelerations, ("qdd", first freedom) for joints, ("force",
number) for the forces of a constraint."""


@final
@dataclass(frozen=True, eq=False)
class Row:
    """One row of the form, p + sum of blocks times unknowns; ``factors`` of its pivot."""

    p: ScalarArray
    blocks: Mapping[Key, ScalarArray]
    factors: Any = None

    def at(self, solved: Mapping[Key, ScalarArray]) -> ScalarArray:
        """Value of the row where its unknowns are ``solved``."""
        total = self.p
        for y, block in self.blocks.items():
            total = total + block @ solved[y]
        return total


@final
class QuadraticForm:
    """1/2 d^T M d + p^T d by blocks; M is kept as both M[u][v] and M[v][u] = M[u][v]^T."""

    def __init__(self) -> None:
        self.M: dict[Key, dict[Key, ScalarArray]] = defaultdict(dict)
        self.p: dict[Key, ScalarArray] = {}
        self._coupled: set[Key] = set()  # qdd of several joints
        self._driven: set[tuple[Key, Key]] = set()  # qdd that forces act on themselves

    def add(self, u: Key, v: Key, block: ScalarArray) -> None:
        """M_uv += block."""
        self.M[u][v] = self.M[u][v] + block if v in self.M[u] else block
        if u != v:
            self.M[v][u] = self.M[u][v].T

    def drive(self, x: Key, c: Key, torques: ScalarArray) -> None:
        """Torques (nv_x, m) that unit forces c of a constraint give the joint x itself."""
        if (x, c) not in self._driven:  # once, however many joints are coupled
            self._driven.add((x, c))
            self.add(x, c, -torques)

    def add_linear(self, u: Key, term: ScalarArray) -> None:
        """p_u += term."""
        self.p[u] = self.p[u] + term if u in self.p else term

    def remove(self, u: Key) -> tuple[ScalarArray, ScalarArray, dict[Key, ScalarArray]]:
        """Take out an unknown: its own block, linear term and blocks with its neighbours."""
        row = self.M.pop(u)
        own = row.pop(u)
        for v in row:
            del self.M[v][u]
        return own, self.p.pop(u), row

    def _clear(self, u: Key, v: Key, rows: BoolArray) -> None:
        """Rows of M_uv that vanish."""
        block = self.M[u][v].copy()
        block[rows] = 0
        self.M[u][v], self.M[v][u] = block, block.T

    def joint_pair(self, u: Key, x: Key, S: ScalarArray) -> None:
        """u = carried + S qdd: the carried acceleration takes the place of u."""
        # M_xy += S^T M_uy for all y, u and x among them
        if x in self.M:
            self._coupled.add(x)
        own = self.M[u][u]
        others = [(y, block) for y, block in self.M[u].items() if y != u]
        self.add(x, x, S.T @ (own @ S))
        for y, block in others:
            self.add(x, y, S.T @ block if y != x else S.T @ block + block.T @ S)
        self.add(u, x, own @ S)
        self.add_linear(x, S.T @ self.p[u])

    def link_pair(self, u: Key, w: Key, X: Transform) -> None:
        """u = X w with w the acceleration of the parent; the base, -1, does not accelerate."""
        M, p, blocks = self.remove(u)
        if w[1] < 0:
            return
        # M_wy += X^T M_uy
        self.add(w, w, congruence(X, M))
        self.add_linear(w, X.force_back(p))
        for y, block in blocks.items():
            moved = np.column_stack([X.force_back(column) for column in block.T])
            self.add(w, y, moved if y != w else moved + moved.T)

    def pivot(self, x: Key, torque: ScalarArray, armature: Array, u: Key, S: Array) -> Row:
        """Eliminate x = qdd of the joint S of body u, with armature and torque of its row."""
        own, p, blocks = self.remove(x)
        p = p - torque
        factors = factor_ldl(own + np.diag(armature))
        # M_yz -= M_yx M_xx^-1 M_xz for all neighbours y and z of x
        neighbours = list(blocks)
        more = bool(armature.any()) or x in self._coupled  # not of u alone
        for place, y in enumerate(neighbours):
            self.add_linear(y, -(blocks[y].T @ solve_ldl(factors, p)))
            for z in neighbours[place:]:
                if y == z == u:
                    M, U = self.M[u][u], blocks[u].T
                    self.M[u][u] = without_joint(M, S, U, factors, armature=more)
                    continue
                scaled = np.column_stack([solve_ldl(factors, c) for c in blocks[z].T])
                self.add(y, z, -(blocks[y].T @ scaled))
                other = z if y == u else y
                if u in (y, z) and not more and (x, other) not in self._driven:
                    # S^T M_uz = 0 exactly, as S^T M_uu is; of driving forces it is a torque
                    self._clear(u, other, along_axes(S))
        return Row(p, blocks, factors)
