"""The body Jacobian of a large robot as loops.

The algorithm of :mod:`dynsys.recursive.jacobian`: transforms of all joints, O(n), then columns
from the body to the base, O(depth).
"""

from __future__ import annotations

from typing import final

import numpy as np

from dynsys.jit import Loop
from dynsys.kernel.arguments import FloatArray
from dynsys.loops.loop_kernel import AbstractLoopKernel
from dynsys.loops.states import body_transforms
from dynsys.model.tree import KinematicTree
from dynsys.program.signature import Signature
from dynsys.types import Array, IntArray

__all__ = ["LoopJacobian"]


@final
class LoopJacobian(AbstractLoopKernel):
    """Jacobian of one body or frame, in its own coordinates: input q (nq,), output (6 nv,)."""

    def __init__(self, robot: KinematicTree, body: str | int, dtype: str = "float64") -> None:
        signature = Signature((("q", robot.nq),), (("jacobian", 6 * robot.nv),))
        super().__init__(robot, np.ones(robot.nv, dtype=bool), signature, dtype)
        frame = robot.frame(body)
        path = robot.support(frame.body)[::-1]
        places = [robot.v_slices()[i] for i in path]
        columns = [robot.motion_subspace[i].T for i in path]
        self._path = np.array(path, dtype=np.intp)
        self._first = np.cumsum([0, *map(len, columns)]).astype(np.intp)
        self._freedom = np.array([k for v in places for k in range(v.start, v.stop)], np.intp)
        self._S = np.ascontiguousarray(np.concatenate([np.zeros((0, 6)), *columns]))
        self._frame = np.array(frame.transform.E, np.float64), np.array(frame.transform.r)

    @property
    def _forms_matrix(self) -> bool:
        return False

    def _run_rows(self, inputs: list[FloatArray], outputs: list[FloatArray]) -> bool:
        n_bodies, nv, finite = self._flat.robot.n_bodies, self._flat.robot.nv, True
        E, r = np.empty((n_bodies, 3, 3)), np.empty((n_bodies, 3))
        for q, out in zip(inputs[0], outputs[0], strict=True):
            self._flat.call(body_transforms(), q, E, r)
            J = np.zeros((6, nv))
            fill_jacobian(
                self._path, self._first, self._freedom, self._S, E, r, *self._frame, J
            )
            if not (np.isfinite(q).all() and np.isfinite(E).all()):
                J[0, 0] = np.nan  # also for joints that do not move the body
            out[:] = J.ravel()
            finite = bool(np.isfinite(J).all()) and finite
        return finite


@Loop
def fill_jacobian(
    path: IntArray,
    first: IntArray,
    freedom: IntArray,
    S: Array,
    E: Array,
    r: Array,
    turn: Array,
    way: Array,
    J: Array,
) -> None:
    """Add (transform j -> frame) S_j for the joints j of ``path``, from the body to the base.

    ``turn`` (3, 3) and ``way`` (3,) are the transform body -> frame; J (6, nv) starts as zeros.
    """
    e, d = turn.copy(), way.copy()
    for i in range(len(path)):
        j = path[i]
        for k in range(first[i], first[i + 1]):
            s, column = S[k], freedom[k]
            x = s[3] - (d[1] * s[2] - d[2] * s[1])  # v - d x w
            y = s[4] - (d[2] * s[0] - d[0] * s[2])
            z = s[5] - (d[0] * s[1] - d[1] * s[0])
            for m in range(3):
                J[m, column] += e[m, 0] * s[0] + e[m, 1] * s[1] + e[m, 2] * s[2]
                J[m + 3, column] += e[m, 0] * x + e[m, 1] * y + e[m, 2] * z
        before, moved = e.copy(), d.copy()
        for m in range(3):  # parent of j -> frame
            d[m] = r[j, m]
            for n in range(3):
                d[m] += E[j, n, m] * moved[n]
                e[m, n] = 0.0
                for k in range(3):
                    e[m, n] += before[m, k] * E[j, k, n]
