"""Derivatives of dynamics: how the answer changes with position, velocity and what is given.

    J.q = d answer / d q       J.qd = d answer / d qd       J.qdd, J.torque or J.known = by that

each (nv, nv), exact, by one compiled kernel (:mod:`dynsys.plan.derivatives`). The answer is
torque in inverse and qdd in forward dynamics; in hybrid dynamics, freedom by freedom, the one
of both that is not given. Derivatives by q are along v in ``robot.integrate(q, v, 1)`` at
v = 0, one column for each freedom, quaternions or not. External wrenches stay as they are in
the coordinates of their bodies.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, wraps
from typing import TYPE_CHECKING, Any, cast, final

import numpy as np

from dynsys.errors import KernelBuildError, SingularSystemError
from dynsys.kernel.build import dynamics_kernel
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.making import maker
from dynsys.plan.derivatives import ALL_DERIVATIVES, dense_derivatives
from dynsys.recursive.inputs import state_rows, wrench_rows
from dynsys.recursive.kinematics import WrenchInput, external_wrenches
from dynsys.types import Array, ArrayLike
from problems.inputs import check_out
from problems.warm import WarmMemory

if TYPE_CHECKING:
    from problems.problem import AbstractDynamics

__all__ = ["Derivatives", "DifferentiatedDynamics"]

MANY = {"qdd": 32, "torque": 256, "known": 256}
"""States of a batch from which code of its own pays, on large robots, by what is given: that of
forward dynamics takes ten times as long to compile."""


@final
class Derivatives:
    """Matrices (nv, nv) of derivatives, rows of the answer; leading axis N for a batch.

    ``q``, ``qd`` and the name of what was given: ``qdd`` in inverse, ``torque`` in forward,
    ``known`` in hybrid dynamics.
    """

    __slots__ = ("_all", "_kind")

    def __init__(self, found: Array, kind: tuple[int, str]) -> None:
        self._all = found  # (..., 3 nv nv), cut when somebody looks
        self._kind = kind  # nv, name of what was given

    def _part(self, k: int) -> Array:
        (nv, _), found = self._kind, self._all
        return found.reshape(*found.shape[:-1], 3, nv, nv)[..., k, :, :]

    @property
    def q(self) -> Array:
        """By position: along v in ``robot.integrate(q, v, 1)``."""
        return self._part(0)

    @property
    def qd(self) -> Array:
        """By velocity."""
        return self._part(1)

    @property
    def qdd(self) -> Array:
        """By what inverse dynamics is given: the inertia matrix H."""
        return self._by("qdd")

    @property
    def torque(self) -> Array:
        """By what forward dynamics is given: H^-1."""
        return self._by("torque")

    @property
    def known(self) -> Array:
        """By what hybrid dynamics is given."""
        return self._by("known")

    def _by(self, name: str) -> Array:
        if name != self._kind[1]:
            raise AttributeError(f"derivatives are by q, qd and {self._kind[1]}, not by {name}")
        return self._part(2)

    def __repr__(self) -> str:
        return f"Derivatives(q, qd, {self._kind[1]}: each {self.q.shape})"


class DifferentiatedDynamics:
    """What problems of dynamics offer beyond the answer itself: its derivatives."""

    @cached_property
    def _derivative_kernels(self) -> dict[tuple[bool, bool], Kernel]:
        """Kernels without or with external wrenches, for many states or not, as needed."""
        return {}

    def _derivative_kernel(self, wrenches: bool, n: int = 1) -> Kernel:
        """Kernel for n states at a time."""
        me = cast("AbstractDynamics", self)
        key = wrenches, n >= MANY[me.given]
        found = self._derivative_kernels.get(key)
        if found is None:
            spec = me._spec((ALL_DERIVATIVES,), wrenches)
            found = self._derivative_kernels[key] = dynamics_kernel(
                spec, rows=key[1], backend=me._executes
            )
        return found

    @cached_property
    def _is_differentiated_by_code(self) -> bool:
        """Whether derivatives have a kernel; else plain arithmetic gives them."""
        me = cast("AbstractDynamics", self)
        return me._chosen(me.backend, "float64") not in ("loops", "reference")

    @cached_property
    def _fast_derivatives(self) -> tuple[Any, tuple[int, str]]:
        """Machine code f(q, qd, given, answer); nv and name of what is given."""
        me = cast("AbstractDynamics", self)
        self._refuse_constraints()
        fast = self._derivative_kernel(False).fast if self._is_differentiated_by_code else _no
        return fast, (me.robot.nv, me.given)

    def _refuse_constraints(self) -> None:
        if cast("AbstractDynamics", self).constraints:
            raise KernelBuildError(
                "derivatives are of dynamics without constraints; give this problem none"
            )

    @cached_property
    def _derivative_memory(self) -> WarmMemory:
        return WarmMemory()

    def derivatives(
        self, q: Any, qd: Any, given: Any, f_ext: WrenchInput = None, *, out: Any = None
    ) -> Derivatives:
        """Derivatives of the answer at one state: see :mod:`problems.derivatives`.

        Parameters and errors are those of :meth:`solve`; ``out`` (3 nv nv,) is where to write
        the three matrices, one after the other. Compiles on first use.

        Examples
        --------
        >>> import dynsys, problems
        >>> robot = dynsys.synthetic.chain(3)
        >>> J = problems.InverseDynamics(robot).derivatives([1, 2, 3], [0, 0, 0], [4, 5, 6])
        >>> bool(np.allclose(J.qdd, dynsys.crba(robot, [1, 2, 3])))
        True
        """
        (_, kind), otherwise = self._fast_derivatives, self._derivatives_carefully
        if self._is_differentiated_by_code:  # from now on machine code is this method
            made = maker(self._derivative_kernel(False), Derivatives, kind, otherwise)
            vars(self)["derivatives"] = made
            if f_ext is None and out is None:
                return made(q, qd, given)
        return otherwise(q, qd, given, f_ext, out=out)

    @wraps(derivatives)
    def _derivatives_carefully(
        self, q: Any, qd: Any, given: Any, f_ext: WrenchInput = None, *, out: Any = None
    ) -> Derivatives:
        fast, kind = self._fast_derivatives
        if f_ext is None and out is not None and fast(q, qd, given, out):
            return Derivatives(out, kind)
        me = cast("AbstractDynamics", self)
        robot, nv = me.robot, me.robot.nv
        state = [robot.check_q(q), robot.check_v(qd, "qd"), robot.check_v(given, me.given)]
        wrenches = external_wrenches(robot, f_ext)
        found = self._at(state, wrenches)
        if out is not None:
            check_out(out, (3 * nv * nv,))[...] = found
            found = out
        return Derivatives(found, kind)

    def derivatives_batch(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        given: ArrayLike,
        f_ext: WrenchInput = None,
        *,
        threads: int = 1,
        out: Any = None,
    ) -> Derivatives:
        """Derivatives at N states: q (N, nq), the others (N, nv); J.q is (N, nv, nv).

        ``f_ext`` and ``threads`` are those of :meth:`solve_batch`, ``out`` (N, 3 nv nv).
        """
        me = cast("AbstractDynamics", self)
        self._refuse_constraints()
        robot, nv = me.robot, me.robot.nv
        states: Sequence[Any] = (q, qd, given)
        wrenches = None
        if f_ext is not None or not all(type(x) is np.ndarray and x.ndim == 2 for x in states):
            states = state_rows(robot, (("q", q), ("qd", qd), (me.given, given)))
            wrenches = wrench_rows(robot, f_ext, len(states[0]))
        n = len(states[0])
        if out is not None:
            check_out(out, (n, 3 * nv * nv))
        found = self._derivative_memory.empty((n, 3 * nv * nv)) if out is None else out
        finite = False
        if self._is_differentiated_by_code:
            kernel = self._derivative_kernel(wrenches is not None, n)
            inputs = [*states] if wrenches is None else [*states, wrenches.reshape(n, -1)]
            _, finite = kernel.batch(*inputs, out=(found,), threads=threads)
        if not finite:
            states = state_rows(robot, (("q", q), ("qd", qd), (me.given, given)))
            for k in range(n):
                if not self._is_differentiated_by_code or not np.isfinite(found[k]).all():
                    one = None if wrenches is None else wrenches[k]
                    found[k] = self._at([x[k] for x in states], one, f"state {k}: ")
        return Derivatives(found, (nv, me.given))

    def _at(self, state: list[Array], wrenches: Array | None, where: str = "") -> Array:
        """The three matrices, flat, at a state that was checked: by code, or by pivoting."""
        me = cast("AbstractDynamics", self)
        if self._is_differentiated_by_code:
            kernel = self._derivative_kernel(wrenches is not None)
            inputs = state if wrenches is None else [*state, wrenches.ravel()]
            (found,), finite = kernel.one(*inputs)
            if finite:
                return found
        answers = dict(
            zip(me.answers, me._by_reference(state, wrenches, None, where), strict=True)
        )
        q, qd, given = state
        found = dense_derivatives(
            me.robot, q, qd, answers.get("qdd", given), me.known, wrenches
        )
        if not np.isfinite(found).all():
            raise SingularSystemError(
                f"{where}robot {me.robot.name!r}: derivatives are too large for numbers; qdd is"
                " barely determined at this state"
            )
        return found


def _no(*arrays: Any) -> None:
    """Machine code there is none."""
