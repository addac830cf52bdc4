"""Products with the derivatives of dynamics of any kind; no matrix is formed. O(n).

    jvp = J v                   how the answer changes along a direction v of the variables
    vjp = J^T w                 gradient of w . answer, by every variable
    hvp = d (J^T w) along v     how that gradient changes along v: second order

Variables are q, qd, what is given, external wrenches and parameters, as far as they are inputs,
one after the other; q by its tangent, along v in ``robot.integrate(q, v, 1)``. The answer is
torque of the freedoms A whose qdd is given and qdd of the others, T, whose torque is given
(:mod:`dynsys.plan.derivatives`). With torque = ID(x, qdd), x all variables but what is given,

    jvp    D = ID' along (v, dqdd_A)       H_TT y_T = v_T - D_T    answer: y_T, D_A + H_AT y_T
    vjp    H_TT l_T = -w_T - H_TA l_A,     l_A = w_A               (ID')^T l;  by torque_T: -l_T
    hvp    h = (ID'^T l)' along (v, dqdd)  H_TT k_T = -h_T         h + (ID')^T k;  by it: -k_T

(dqdd_T from the jvp, k_A = 0): chain rule over the recorded inverse dynamics, forward, in
reverse or both, and one elimination from rest for each "H_TT y = ...", whose pivots are those
of the answer itself, computed once. Inverse dynamics, without T, has nothing to solve.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np

from dynsys.model.tree import KinematicTree
from dynsys.plan.derivatives import NOTHING, inverse_dynamics, recorded
from dynsys.plan.step_order import staged_steps
from dynsys.plan.symmetric import SymmetricStep, solve_symmetric, symmetric_steps
from dynsys.program.derivatives import Replay, transposed_product, vjp_program
from dynsys.program.frames import Reframed
from dynsys.recursive.kinematics import transforms
from dynsys.types import BoolArray, ScalarArray

__all__ = ["PRODUCTS", "VECTORS", "product_results"]

PRODUCTS: Mapping[str, tuple[str, ...]] = {
    "jvp": ("direction",),
    "vjp": ("weight",),
    "hvp": ("weight", "direction"),
}
"""Outputs by name, and the further inputs that each needs."""
VECTORS = ("weight", "direction")
"""Further inputs, in this order behind all others."""


def product_results(
    mechanism_at: Callable[[ScalarArray], Reframed],
    inputs: Mapping[str, ScalarArray],
    qdd: ScalarArray,
    known: BoolArray,
    steps: Sequence[SymmetricStep] | None,
    wanted: Sequence[str],
) -> dict[str, ScalarArray]:
    """Products by name, on the graph of the inputs.

    ``inputs`` are q, qd, what is given, wrenches and parameters, if any, in this order, then
    weight and direction as far as they are needed; ``qdd`` (nv,) is that of the solution.
    """
    found = _Products(mechanism_at, inputs, qdd, known, steps)
    return {name: getattr(found, name)() for name in PRODUCTS if name in wanted}


@final
class _Products:
    """The formulas of the module, each written once."""

    def __init__(
        self,
        mechanism_at: Callable[[ScalarArray], Reframed],
        inputs: Mapping[str, ScalarArray],
        qdd: ScalarArray,
        known: BoolArray,
        steps: Sequence[SymmetricStep] | None,
    ) -> None:
        self._known, self._nv = known, len(qdd)
        self._weight = inputs.get("weight", NOTHING)
        self._direction = inputs.get("direction", NOTHING)
        q, qd, f_ext, p = (
            inputs.get(name, NOTHING) for name in ("q", "qd", "f_ext", "parameters")
        )
        self._mechanism = mechanism_at(p)
        robot = self._mechanism.robot
        self._q, self._steps = q, symmetric_steps(robot, known) if steps is None else steps
        self._x = [q, qd, qdd, f_ext, p]
        self._program = recorded(inverse_dynamics(mechanism_at), [len(x) for x in self._x])
        self._replay = Replay(self._program, q[0].graph, np.concatenate(self._x))

    def jvp(self) -> ScalarArray:
        """J v (nv,)."""
        D, A = self._replay.forward(self._moved(self._direction, 0.0)), self._known
        if A.all():
            return D
        y = self._from_rest(np.where(A, 0.0, self._third(self._direction) - D))
        return np.where(A, D + y, y)

    def vjp(self) -> ScalarArray:
        """J^T w, by every variable."""
        l = self._multipliers()
        return self._by_given(_tangential(self._robot, self._q, self._replay.reverse(l)), l)

    def hvp(self) -> ScalarArray:
        """How J^T w changes along v."""
        A, nv, graph = self._known, self._nv, self._replay.graph
        l, x = self._multipliers(), np.concatenate(self._x)
        width = len(x) - len(self._q) + nv
        robot = self._robot
        gradient = vjp_program(self._program, lambda x, v: _moved(robot, x, v), width)
        replay = Replay(gradient, graph, np.concatenate([x, l]))
        dqdd = 0.0 if A.all() else self.jvp()
        h = replay.forward([*self._moved(self._direction, dqdd), *np.zeros(nv)])
        if A.all():
            return h
        k = np.where(A, 0.0, self._from_rest(np.where(A, 0.0, -self._third(h))))
        more = _tangential(robot, self._q, self._replay.reverse(k))
        return self._by_given(h + more, k)

    @property
    def _robot(self) -> KinematicTree:
        return self._mechanism.robot

    def _third(self, x: ScalarArray) -> ScalarArray:
        """The part (nv,) that belongs to qdd, or to what is given."""
        return x[2 * self._nv : 3 * self._nv]

    def _moved(self, direction: ScalarArray, dqdd_T: Any) -> ScalarArray:
        """How the inputs of inverse dynamics move: what is given moves qdd_A, the rest is T."""
        third = np.where(self._known, self._third(direction), dqdd_T)
        of_x = np.concatenate([direction[: 2 * self._nv], third, direction[3 * self._nv :]])
        return _moved(self._robot, np.concatenate(self._x), of_x)

    def _by_given(self, gradient: ScalarArray, l: ScalarArray) -> ScalarArray:
        """Gradient by all variables from that of inverse dynamics: by torque_T it is -l_T."""
        third = np.where(self._known, self._third(gradient), -l)
        return np.concatenate([gradient[: 2 * self._nv], third, gradient[3 * self._nv :]])

    def _multipliers(self) -> ScalarArray:
        """l (nv,): w_A, and what w asks of the equations of T."""
        w, A = self._weight, self._known
        return w if A.all() else np.where(A, w, -self._from_rest(np.where(A, -w, w)))

    def _from_rest(self, third: ScalarArray) -> ScalarArray:
        """qdd_T and torque_A (nv,) of torque_T and qdd_A, at rest and without weight."""
        robot, known = self._mechanism, self._known
        X_up = transforms(robot, self._q)
        imposed = np.where(known, third, 0.0)
        a: list[ScalarArray] = []
        bias: list[ScalarArray] = []
        for i, (X, parent) in enumerate(zip(X_up, robot.parent.tolist(), strict=True)):
            own = robot.motion_subspace[i] @ imposed[robot.v_slices()[i]]
            a.append(own if parent < 0 else X.motion(a[parent]) + own)
            bias.append(robot.moments[i].matrix() @ a[i])
        staged = staged_steps(robot, self._steps)
        qdd, torque, _ = solve_symmetric(robot, X_up, bias, third, known, staged)
        return np.where(known, torque, qdd)


def _moved(robot: KinematicTree, x: ScalarArray, v: ScalarArray) -> ScalarArray:
    """How inputs x, of which q is the first, move along v: T(q) v_q, then v itself."""
    T, v_q = robot.tangent(x[: robot.nq]), v[: robot.nv]
    return np.concatenate([transposed_product(T.T, v_q), v[robot.nv :]])


def _tangential(robot: KinematicTree, q: ScalarArray, gradient: ScalarArray) -> ScalarArray:
    """T^T of the first nq numbers, then the others."""
    by_q = transposed_product(robot.tangent(q), gradient[: robot.nq])
    return np.concatenate([by_q, gradient[robot.nq :]])
