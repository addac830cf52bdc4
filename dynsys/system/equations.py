"""What an equation of the linear system is: a named block of rows.

    sum over terms  coefficient(kinematics) @ unknown  +  bias(kinematics)  -  y  =  0

A term declares once which unknown it touches and where its coefficient can ever be nonzero
(the worst-case pattern, for all q); its values are asked for at every state. ``y`` is there
only for equations that state a known or measured quantity. A physical law, a known torque and
a sensor are all this and nothing more, so a new sensor adds a block and changes nothing here.

Kinematics and coefficients may hold scalars of any kind (float64, longdouble, nodes of the
expression graph): nothing here looks at a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import TypeAlias, final

import numpy as np

from dynsys.model.constraints import Constraint, JointConstraint
from dynsys.model.spatial import Transform, cross_motion
from dynsys.model.tree import KinematicTree
from dynsys.recursive.constraint_rows import ConstraintRows, constraint_rows
from dynsys.recursive.kinematics import poses, transforms, velocities
from dynsys.system.unknowns import UnknownBlock
from dynsys.types import Array, BoolArray, IntArray, ScalarArray

__all__ = [
    "EquationBlock",
    "Kinematics",
    "Term",
    "Values",
    "carrying_size",
    "product_size",
    "vector_size",
]


@final
@dataclass(frozen=True, eq=False)
class Kinematics:
    """All that coefficients and biases depend on: transforms and velocities at one state.

    ``transforms[i]`` goes parent -> body i and ``X_up[i]`` (6, 6) is its matrix;
    ``velocity[i]`` (6,) is the spatial velocity in body coordinates ([NORI] eq. 2).
    """

    robot: KinematicTree
    qd: ScalarArray
    transforms: tuple[Transform, ...]
    X_up: tuple[ScalarArray, ...]
    velocity: tuple[ScalarArray, ...]
    q: ScalarArray | None = None  # for what joints are tied to

    @staticmethod
    def at(robot: KinematicTree, q: ScalarArray, qd: ScalarArray) -> Kinematics:
        """Return the kinematics at position q (nq,) and velocity qd (nv,)."""
        X = tuple(transforms(robot, q))
        matrices = tuple(transform.matrix() for transform in X)
        return Kinematics(robot, qd, X, matrices, tuple(velocities(robot, X, qd)), q)

    @cached_property
    def poses(self) -> tuple[Transform, ...]:
        """Transform base -> body of every body."""
        return tuple(poses(self.robot, self.transforms))

    @cached_property
    def drift(self) -> tuple[ScalarArray, ...]:
        """Proper acceleration (6,) of every body where every qdd is zero."""
        found: list[ScalarArray] = []
        for i, (X, S, v) in enumerate(
            zip(self.transforms, self.robot.motion_subspace, self.robot.v_slices(), strict=True)
        ):
            parent = int(self.robot.parent[i])
            above = self.base_acceleration if parent < 0 else found[parent]
            found.append(X.motion(above) + cross_motion(self.velocity[i], S @ self.qd[v]))
        return tuple(found)

    def rows(self, constraint: Constraint) -> ConstraintRows:
        """Rows of a constraint, in the motion whose qdd are zero."""
        if constraint not in self._rows:
            q = self.q  # of which only rows of joints make use
            if q is None:
                if isinstance(constraint, JointConstraint):
                    raise ValueError("constraints of joints need q: use Kinematics.at")
                q = np.zeros(0)
            state = q, self.qd, 0 * self.qd, self.transforms
            self._rows[constraint] = constraint_rows(self.robot, constraint, self.robot, *state)
        return self._rows[constraint]

    @cached_property
    def _rows(self) -> dict[Constraint, ConstraintRows]:
        return {}

    @cached_property
    def friction(self) -> ScalarArray:
        """Torque (nv,) that the drives spend on friction."""
        return self.robot.friction_torque(self.qd)

    @cached_property
    def centre_of_mass(self) -> ScalarArray:
        """Centre of mass (3,) of all bodies, base coordinates."""
        moment: ScalarArray = np.zeros(3)
        for pose, body in zip(self.poses, self.robot.bodies, strict=True):
            moment = moment + body.inertia.mass * pose.point(body.inertia.com)
        return moment / self.robot.total_mass

    @property
    def base_acceleration(self) -> Array:
        """a_0 = -g (6,): gravity as an acceleration of the base ([NORI] section IV-A)."""
        return np.concatenate([np.zeros(3), -self.robot.gravity])

    # ---- sizes: sums of magnitudes, see dynsys.system.size --------------------------------

    @cached_property
    def arms(self) -> Array:
        """Size (n_bodies,) of the way r from each body's parent; slides may cancel offsets."""
        ways = np.array([X.r for X in self.transforms], dtype=np.float64)
        arms = np.asarray(np.linalg.norm(ways, axis=1))
        for i, (body, S) in enumerate(
            zip(self.robot.bodies, self.robot.motion_subspace, strict=True)
        ):
            if S[3:].any():
                arms[i] += 2.0 * float(np.linalg.norm(body.placement.r))
        return arms

    @cached_property
    def reach(self) -> Array:
        """Size (n_bodies,) of the way from the base to each body."""
        reach = self.arms.copy()
        for i, parent in enumerate(self.robot.parent.tolist()):
            reach[i] += reach[parent] if parent >= 0 else 0.0
        return reach

    @cached_property
    def joint_speeds(self) -> Array:
        """Sizes (n_bodies, 2) of the angular and linear part of S_i qd_i."""
        qd = np.abs(self.qd).astype(np.float64)
        return np.array(
            [
                np.linalg.norm(S.reshape(2, 3, -1), axis=1) @ qd[v]
                for S, v in zip(self.robot.motion_subspace, self.robot.v_slices(), strict=True)
            ]
        )

    @cached_property
    def speeds(self) -> Array:
        """Sizes (n_bodies, 2) of the angular and linear velocity of every body."""
        speeds = self.joint_speeds.copy()
        for i, parent in enumerate(self.robot.parent.tolist()):
            if parent >= 0:
                w, linear = speeds[parent]
                speeds[i] += w, linear + self.arms[i] * w
        return speeds


Values: TypeAlias = Callable[[Kinematics], ScalarArray]


@final
@dataclass(frozen=True, eq=False)
class Term:
    """One coefficient block: ``pattern`` (rows, size of unknown) and its value.

    ``value`` is an array where the coefficient is the same at every state, else a function of
    the kinematics that returns one; entries outside the pattern are never read. ``size``, a
    function too, gives the sizes of its entries where rows may cancel (dynsys.system.size).
    """

    unknown: UnknownBlock
    pattern: BoolArray
    value: Array | Values
    size: Values | None = None

    @staticmethod
    def constant(unknown: UnknownBlock, value: Array) -> Term:
        """Return a term with the same coefficient (rows, size of unknown) at every state."""
        return Term(unknown, value != 0, value)

    @staticmethod
    def identity(unknown: UnknownBlock, sign: float = 1.0) -> Term:
        """Return the unknown itself, or its negative: +-1 on the diagonal."""
        return Term(unknown, *_identity(unknown.size, sign))

    @staticmethod
    def carried(unknown: UnknownBlock, robot: KinematicTree, i: int) -> Term:
        """Return X_i times a motion of the parent of body i: that motion at body i."""
        return Term(unknown, robot.transform_pattern[i], lambda kin: kin.X_up[i])

    @staticmethod
    def carried_back(unknown: UnknownBlock, robot: KinematicTree, i: int) -> Term:
        """Return X_i^T times a wrench on body i: that wrench at its parent."""
        return Term(unknown, robot.transform_pattern[i].T, lambda kin: kin.X_up[i].T)

    @property
    def is_constant(self) -> bool:
        """True if the coefficient does not depend on the state."""
        return not callable(self.value)

    def at(self, kinematics: Kinematics) -> ScalarArray:
        """Coefficient (rows, size of unknown) at a state."""
        return self.value(kinematics) if callable(self.value) else self.value

    def entries(self, kinematics: Kinematics) -> ScalarArray:
        """Values at the nonzeros of the pattern, row by row."""
        return self.at(kinematics)[self.pattern]

    def size_at(self, kinematics: Kinematics) -> Array:
        """Sizes (rows, size of unknown) of the entries: by default the length of each row.

        Entries on one vector share it; so the first column of each vector says all.
        """
        if self.size is not None:
            return self.size(kinematics)
        if callable(self.value):
            return vector_size(self.value(kinematics), False, self.unknown.is_vector)
        return self._constant_size

    @cached_property
    def _constant_size(self) -> Array:
        return vector_size(np.asarray(self.value), False, self.unknown.is_vector)

    def part(self, rows: IntArray) -> Term:
        """Some of the rows."""
        value, size = self.value, self.size
        some = (lambda kin: value(kin)[rows]) if callable(value) else value[rows]
        of_some = None if size is None else lambda kin: size(kin)[rows]
        return Term(self.unknown, self.pattern[rows], some, of_some)


def carrying_size(arm: float) -> Array:
    """Sizes (6, 6) of the matrix of a transform over ``arm``: |E| = 1, below it |E r x|."""
    size = np.ones((6, 6))
    size[:3, 3:], size[3:, :3] = 0.0, arm
    return size


def product_size(A: Array, B: Array) -> Array:
    """Sizes of the product of two matrices on vectors, from theirs."""
    return np.asarray(A[:, ::3] @ B[::3])


def vector_size(M: ScalarArray, rows: bool = True, columns: bool = True) -> Array:
    """Sizes of a matrix: the norm of the block that an entry is part of.

    Blocks have three rows where the ``rows`` are vectors, else one; columns likewise.
    """
    tall, wide = 3 if rows else 1, 3 if columns else 1
    value = np.asarray(M, dtype=np.float64)
    blocks = value.reshape(len(value) // tall, tall, value.shape[1] // wide, wide)
    if rows and columns:
        norms = np.linalg.norm(blocks, ord=2, axis=(1, 3))
    else:
        norms = np.sqrt((blocks**2).sum(axis=(1, 3)))
    return np.asarray(norms.repeat(tall, axis=0).repeat(wide, axis=1))


@cache
def _identity(size: int, sign: float) -> tuple[BoolArray, Array]:
    """Pattern and value of +-1, shared by all terms that have them, hence read-only."""
    value = sign * np.eye(size)
    pattern = value != 0
    value.flags.writeable = pattern.flags.writeable = False
    return pattern, value


@final
@dataclass(frozen=True, eq=False)
class EquationBlock:
    """``size`` rows of D d + b = 0.

    Parameters
    ----------
    name : unique name within a system, for messages and look-up.
    kind : law or kind of measurement, e.g. ``balance`` or ``known_torque``.
    body : number of the body or joint it belongs to.
    size : number of rows.
    terms : coefficient blocks; several on one unknown add up.
    bias : function of the kinematics giving (size,), None for zero.
    measured : True if the equation states a known quantity y, which enters b as -y.
    dual : unknown whose columns pair with these rows in the symmetric form of D: acceleration
        rows with joint wrenches, balance rows with accelerations, torque rows with qdd.
    units : of the rows of a measurement.
    """

    name: str
    kind: str
    body: int
    size: int
    terms: tuple[Term, ...]
    bias: Values | None = None
    measured: bool = False
    dual: UnknownBlock | None = None
    units: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for term in self.terms:
            expected = (self.size, term.unknown.size)
            if term.pattern.shape != expected:
                raise ValueError(
                    f"equation {self.name!r}: the term on the {term.unknown} has a pattern of"
                    f" shape {term.pattern.shape}, expected {expected}"
                )

    @staticmethod
    def paired(
        kind: str,
        owner: str,
        dual: UnknownBlock,
        terms: Iterable[Term],
        bias: Values | None = None,
        measured: bool = False,
    ) -> EquationBlock:
        """Equation of body or joint ``owner``: as many rows as its dual unknown has columns."""
        name, rows = f"{kind}({owner})", dual.size
        return EquationBlock(name, kind, dual.body, rows, tuple(terms), bias, measured, dual)

    def part(self, rows: IntArray) -> EquationBlock:
        """Some of the rows as an equation of the same name; the pairing is lost with a row."""
        if len(rows) == self.size:
            return self
        terms = [term.part(rows) for term in self.terms]
        return replace(
            self,
            size=len(rows),
            terms=tuple(term for term in terms if term.pattern.any()),
            bias=None if self.bias is None else lambda kin: self.bias_at(kin)[rows],
            dual=None,
            units=tuple(np.array(self.units)[rows].tolist()) if self.units else (),
        )

    def bias_at(self, kinematics: Kinematics) -> ScalarArray:
        """Bias (size,) at a state, without y."""
        return np.zeros(self.size) if self.bias is None else self.bias(kinematics)
