"""The `reference` backend: factorise D at each state with SuperLU, columns by COLAMD.

Readable and general rather than fast; the other backends are compared with it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import cast, final

import numpy as np
from scipy.sparse import csc_array, diags_array
from scipy.sparse.linalg import SuperLU

from dynsys.errors import DynsysError, SingularSystemError, StateError
from dynsys.kernel.arguments import input_array, input_rows, output_target
from dynsys.kernel.threads import check_threads
from dynsys.model.natural import unusual
from dynsys.plan.record import DynamicsSpec
from dynsys.program.signature import Signature
from dynsys.superlu import factorised
from dynsys.system.diagnosis import describe_singularity, null_vector
from dynsys.system.linear_system import LinearSystem
from dynsys.system.size import unknown_units
from dynsys.system.unknowns import UnknownKind
from dynsys.types import Array, ArrayLike, IntArray
from problems.inputs import apart_from

__all__ = ["AbstractReference", "ReferenceKernel", "residuals"]

SUSPECT_PIVOT = 1e-10
"""Pivots below this part of their column are looked into: D may be singular to rounding."""


def _solve_square(system: LinearSystem, D: csc_array[np.float64], b: Array) -> Array:
    """Return d (n,) with D d + b = 0 for a square system.

    Raises
    ------
    SingularSystemError
        naming the unknowns that the equations leave open at this state.
    """
    factors = factorised(D, permc_spec="COLAMD")
    if factors is None or _smallest_pivot(factors) < SUSPECT_PIVOT:
        units = unusual(unknown_units(system.unknowns))
        null = null_vector(csc_array(D @ diags_array(units)))
        if null is not None:
            raise SingularSystemError(describe_singularity(system, null))
    if factors is None:
        raise SingularSystemError(
            f"robot {system.robot.name!r}: a pivot vanished at this state although no unknown"
            " is undetermined; change the state by a small amount"
        )
    d = -factors.solve(b)
    return d - factors.solve(D @ d + b)  # one step of iterative refinement


def _smallest_pivot(factors: SuperLU) -> float:
    """Smallest ratio of a pivot to the largest entry of U in its column."""
    U = csc_array(factors.U)
    largest = np.maximum.reduceat(np.abs(U.data), U.indptr[:-1])
    return float((np.abs(U.diagonal()) / largest).min())


def residuals(
    system: LinearSystem, q: Array, qd: Array, quantities: Mapping[str, Array]
) -> float | Array:
    """Largest |D d + b| relative to the largest (|D| |d| + |b|) of any row, at each state.

    About 1e-16 for a good solve. Not row by row: where all terms of an equation should cancel
    to zero, as proper accelerations do in free fall, their rounding has no scale of its own.
    """
    d = np.empty((*q.shape[:-1], system.unknowns.size))
    for kind, values in quantities.items():
        d[..., system.unknowns.columns(cast("UnknownKind", kind))] = values
    known = _known_columns(system)

    def of_state(q: Array, qd: Array, d: Array) -> float:
        D, b = system.assemble(q, qd, d[known])
        scale = float(np.max(abs(D) @ np.abs(d) + np.abs(b), initial=0.0))
        return float(np.max(np.abs(D @ d + b), initial=0.0)) / scale if scale > 0 else 0.0

    if q.ndim == 1:
        return of_state(q, qd, d)
    return np.array([of_state(*state) for state in zip(q, qd, d, strict=True)])


def _known_columns(system: LinearSystem) -> IntArray:
    """Columns of the unknowns that are known: y = d[columns], in the order of measured rows."""
    blocks = [block.terms[0].unknown for block in system.equations if block.measured]
    return np.concatenate([unknown.columns for unknown in blocks])


def _check_finite(robot: str, what: str, *numbers: Array) -> None:
    if not all(np.isfinite(x).all() for x in numbers):
        raise StateError(
            f"robot {robot!r}: {what} at this state overflow float64; check the units of q, qd,"
            " torques and masses"
        )


class AbstractReference(ABC):
    """The interface of a compiled kernel over a general solve: slow, with named errors."""

    signature: Signature

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.signature}; float64)"

    @abstractmethod
    def answers(self, *inputs: ArrayLike) -> tuple[Array, ...]:
        """Outputs (size,) at one state."""

    def fast(self, *_: object) -> bool | None:
        """Say that there is no faster way than :meth:`one`."""
        return None

    def one(
        self, *inputs: ArrayLike, out: Sequence[Array] | None = None, where: str = ""
    ) -> tuple[tuple[Array, ...], bool]:
        """Outputs at one state, and whether all are finite.

        Raises
        ------
        SingularSystemError
            naming the unknowns that the equations leave open, ``where`` in front.
        StateError
            If an argument has the wrong length or a value that is not finite.
        """
        self.signature.check_count(inputs, out)
        self._check_outputs(out, ())
        try:
            found = self.answers(*inputs)
        except DynsysError as error:
            raise type(error)(f"{where}{error}") from None
        for target, value in zip(out or (), found, strict=bool(out)):
            target[...] = value
        return tuple(out) if out else found, all(np.isfinite(x).all() for x in found)

    def batch(
        self, *inputs: ArrayLike, out: Sequence[Array] | None = None, threads: int = 1
    ) -> tuple[tuple[Array, ...], bool]:
        """Outputs (N, size) at N states, one after the other; ``threads`` changes nothing."""
        self.signature.check_count(inputs, out)
        check_threads(threads)
        arrays = apart_from(input_rows(inputs, self.signature), out)
        n = len(arrays[0])
        self._check_outputs(out, (n,))
        if out is None:
            out = [np.empty((n, size)) for _, size in self.signature.outputs]
        finite = True
        for k in range(n):
            rows = [target[k] for target in out]
            finite &= self.one(*(x[k] for x in arrays), out=rows, where=f"state {k}: ")[1]
        return tuple(out), finite

    def _check_outputs(self, out: Sequence[Array] | None, rows: tuple[int, ...]) -> None:
        for array, (name, size) in zip(out or (), self.signature.outputs, strict=False):
            output_target(array, name, (*rows, size), ())


@final
class ReferenceKernel(AbstractReference):
    """Dynamics by SuperLU on the assembled D: pivoting, refined once."""

    def __init__(
        self,
        system: LinearSystem,
        given: str,
        outputs: tuple[str, ...],
        *,
        wrenches: bool = False,
    ) -> None:
        self.system = system
        self.outputs = outputs
        robot, any_known = system.robot, np.ones(system.robot.nv, dtype=np.bool_)
        self.signature = DynamicsSpec(robot, any_known, given, outputs, wrenches).signature
        self._given = given

    @cached_property
    def _known_columns(self) -> IntArray:
        return _known_columns(self.system)

    def answers(self, *inputs: ArrayLike) -> tuple[Array, ...]:
        robot, unknowns = self.system.robot, self.system.unknowns
        q, qd = robot.check_q(inputs[0]), robot.check_v(inputs[1], "qd")
        known, third = np.zeros(unknowns.size), robot.check_v(inputs[2], self._given)
        known[unknowns.columns("torque")] = known[unknowns.columns("qdd")] = third
        if len(inputs) > 3:
            wrenches = input_array(inputs[3], "f_ext", (6 * robot.n_bodies,))
            known[unknowns.columns("external_wrench")] = wrenches.reshape(-1, 6)
        with np.errstate(over="ignore", invalid="ignore"):
            D, b = self.system.assemble(q, qd, known[self._known_columns])
        _check_finite(robot.name, "the equations", D.data, b)
        with np.errstate(over="ignore", invalid="ignore"):
            d = _solve_square(self.system, D, b)
        _check_finite(robot.name, "the answer", d)
        return tuple(np.ravel(d[unknowns.columns(kind)]) for kind in self.outputs)  # type: ignore[arg-type]
