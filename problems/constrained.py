"""Dynamics of robots that are held: contacts, loops, coupled joints, as rows of one system.

    H qdd + C = torque + J^T force        J qdd + Jdot qd = target - gains (error, velocity)

Forward and hybrid dynamics find qdd and the forces together, in the elimination of
:mod:`dynsys.plan.symmetric`; inverse dynamics, where qdd is given, the smallest forces that
carry the freedoms without a drive (:mod:`dynsys.plan.held.multipliers`). Where the kernel's
watch says that a rank is lost or rows contradict, the dense algebra here answers, or says why
not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias, cast, final

import numpy as np

from dynsys.errors import (
    ContradictionError,
    KernelBuildError,
    ModelError,
    SingularSystemError,
    StateError,
)
from dynsys.kernel.build import impulse_kernel
from dynsys.kernel.calls import AbstractKernel
from dynsys.kernel.python_entry import FastCall
from dynsys.model.constraints import (
    MOTIONS,
    Axes,
    Constraint,
    FrameConstraint,
    JointConstraint,
    checked_constraints,
    row_labels,
    row_slices,
)
from dynsys.model.joints import Free
from dynsys.model.spatial import Transform
from dynsys.model.tree import KinematicTree
from dynsys.plan.held.impulse import ImpulseSpec
from dynsys.plan.held.multipliers import HeldBy
from dynsys.plan.record import CONSTRAINT_WRENCH, DynamicsSpec
from dynsys.recursive.constraint_rows import CLOSED, closest_configuration, constraint_rows
from dynsys.recursive.crba import crba_scalars
from dynsys.recursive.inputs import finite_rows, state_rows, wrench_rows
from dynsys.recursive.kinematics import WrenchInput, external_wrenches, transforms
from dynsys.recursive.rnea import rnea_scalars
from dynsys.types import Array, ArrayLike, BoolArray, float_array
from problems.held_verdict import HeldVerdict, judge_held
from problems.inputs import apart_from
from problems.reference import AbstractReference
from problems.solution import NamedForces, Solution
from sensors.constraints import LoopClosure, RigidContact
from sensors.joint import MimicConstraint
from sensors.sensor import AbstractConstraint

if TYPE_CHECKING:
    from problems.problem import AbstractDynamics

__all__ = [
    "ConstrainedDynamics",
    "ConstraintInput",
    "DenseConstrained",
    "Gains",
    "Impact",
    "as_constraints",
    "dense_impulse",
]

Gains: TypeAlias = "Sequence[float] | Mapping[str, Sequence[float]] | None"
"""Stiffness (1/s^2) and damping (1/s) of all constraints, or of each by name."""
ConstraintInput: TypeAlias = Constraint | RigidContact | LoopClosure | MimicConstraint

RANK = 1e-9
"""Directions below this part of the largest are no further rank."""
CONTRADICTS = 1e-6
"""Rows that miss each other by more than this part of their terms contradict."""
NATURAL = 10.0
"""Acceleration (rad/s^2, m/s^2) in parts of which they contradict at least."""


# ---- what a user hands in ------------------------------------------------------------------


def as_constraints(
    robot: KinematicTree, given: Sequence[ConstraintInput] | str
) -> tuple[Constraint, ...]:
    """Constraints of a robot: those of its file (``"file"``), or a list.

    Exact contacts, loops and mimic couplings of sensor layouts (``sensors.RigidContact`` and so
    on) are taken too where they say the same.

    Raises
    ------
    ModelError
        naming the constraint and what is wrong with it.
    """
    if isinstance(given, str):
        if given != "file":
            raise ModelError(f"constraints are a list, or 'file'; got {given!r}")
        return checked_constraints(robot, robot.constraints)
    try:
        found = [_of_sensor(constraint) for constraint in given]
    except TypeError:
        raise ModelError(f"constraints are a list, or 'file'; got {given!r}") from None
    return checked_constraints(robot, found)


def _of_sensor(given: ConstraintInput) -> Constraint:
    if isinstance(given, AbstractConstraint) and (
        np.any(given.std) or np.any(given.covariance)
    ):
        raise ModelError(
            f"constraint {given.name!r} has noise ({given.kind}), which no constraint of"
            " dynamics has: leave out std and covariance, or state it as a sensor of a layout"
        )
    if isinstance(given, RigidContact):
        if given.axes == "frame" and (bent := _turned_along(given.held)):
            raise ModelError(
                f"constraint {given.name!r} (rigid_contact) holds {bent} in axes of"
                f" {given.frame!r}, which may slide and turn: as a sensor it says that the"
                " acceleration along them is zero, as a constraint that the velocity is, whose"
                " rate is another one; give axes='world', or a FrameConstraint for the velocity"
            )
        at = Transform(np.eye(3), np.array(given.xyz, dtype=np.float64))
        axes = cast("Axes", given.axes)
        return FrameConstraint(given.name, given.frame, None, given.held, axes, at)
    if isinstance(given, LoopClosure):
        return given.constraint
    if isinstance(given, MimicConstraint):
        along = 0.0, given.ratio
        return JointConstraint(given.name, given.joint, given.leader, along, is_placed=False)
    return given


def _turned_along(held: Sequence[str]) -> str:
    """Held ways of a point along which (w x v) may be other than zero, w, v what is free."""
    found = []
    for k in range(3):
        i, j = (k + 1) % 3, (k + 2) % 3  # w_i v_j - w_j v_i
        free = any(
            MOTIONS[a] not in held and MOTIONS[3 + b] not in held for a, b in ((i, j), (j, i))
        )
        if MOTIONS[3 + k] in held and free:
            found.append(MOTIONS[3 + k])
    return " ".join(found)


# ---- the mixin -----------------------------------------------------------------------------


class ConstrainedDynamics:
    """What problems of dynamics do where constraints hold the robot."""

    constraints: Any
    answers: ClassVar[tuple[Any, ...]]

    @cached_property
    def held(self) -> HeldBy | None:
        """The constraints of this problem with the order of their rows; None without any."""
        me = cast("AbstractDynamics", self)
        if not self.constraints:
            return None
        return HeldBy(me.robot, self.constraints, me.known, self._undriven())

    def _undriven(self) -> BoolArray:
        """Freedoms (nv,) without a drive."""
        me = cast("AbstractDynamics", self)
        named = getattr(self, "undriven", None)
        found = np.zeros(me.robot.nv, dtype=bool)
        for name, joint, v in zip(
            me.robot.joint_names, me.robot.joints, me.robot.v_slices(), strict=True
        ):
            found[v] |= isinstance(joint, Free) if named is None else name in named
        return found

    @property
    def outputs(self) -> tuple[str, ...]:
        """What the kernel computes by default: ``answers``, and wrenches of constraints."""
        return (*self.answers, CONSTRAINT_WRENCH) if self.constraints else self.answers

    def _require_constraints(self) -> HeldBy:
        if self.held is None:
            me = cast("AbstractDynamics", self)
            raise ModelError(
                f"nothing holds robot {me.robot.name!r}: give the problem constraints=[...]"
            )
        return self.held

    @cached_property
    def _held_kernels(self) -> dict[tuple[bool, bool], AbstractKernel]:
        return {}

    def _held_kernel(self, wrenches: bool, steered: bool) -> AbstractKernel:
        """Kernel with external wrenches, and with gains and targets, as further inputs."""
        if (wrenches, steered) not in self._held_kernels:
            me = cast("AbstractDynamics", self)
            kernel = me.compile(wrenches=wrenches, steered=steered)
            self._held_kernels[wrenches, steered] = kernel
        return self._held_kernels[wrenches, steered]

    @cached_property
    def _packed_call(self) -> tuple[FastCall, int, int]:
        """Machine code f(q, qd, given, answer, packed) and the lengths of its outputs.

        ``packed`` is a copy of what was given, and all further answers: one array, cut apart
        when somebody looks at it (:meth:`cut_packed`).
        """
        me = cast("AbstractDynamics", self)
        if me.backend not in ("auto", "llvm", "numpy"):
            return (lambda *arrays: None), 0, 0  # takes nothing as it is
        kernel = me._packed_held_kernel()
        (_, answer), (_, packed) = kernel.signature.outputs
        return kernel.fast, answer, packed

    @cached_property
    def _packed_places(self) -> dict[str, slice]:
        me = cast("AbstractDynamics", self)
        names = ("q", "qd", me.given, *self.answers[1:])
        ends = np.cumsum([me.robot.nq, *[me.robot.nv] * (len(names) - 1)]).tolist()
        places = dict(zip(names, map(slice, [0, *ends], ends), strict=False))
        return {**places, CONSTRAINT_WRENCH: slice(ends[-1], None)}

    def cut_packed(self, packed: Array, answer: Array) -> dict[str, Array]:
        """All that the machine code of one state took in and wrote, by name."""
        me = cast("AbstractDynamics", self)
        found = {name: packed[place] for name, place in self._packed_places.items()}
        found[self.answers[0]] = answer
        for name in ("torque", "qdd"):  # known of every joint, or answers
            found.setdefault(name, found[me.given])
        return found

    def _solve_held(
        self,
        q: Any,
        qd: Any,
        given: Any,
        f_ext: WrenchInput,
        out: Any,
        gains: Gains,
        target: Any,
    ) -> Solution:
        """One state: machine code if it can use the arrays as they are, else all checks."""
        me: Any = self
        if f_ext is None and gains is None and target is None and out is None:
            call, first, more = self._packed_call
            answer, packed = np.empty(first), np.empty(more)
            if call(q, qd, given, answer, packed):
                if self.answers[0] == "qdd":
                    return Solution(me, None, answer, packed)
                return Solution(me, answer, None, packed)
        robot = me.robot
        state = [robot.check_q(q), robot.check_v(qd, "qd"), robot.check_v(given, me.given)]
        out = self._held_targets(out)
        state = apart_from(state, out)
        wrenches = external_wrenches(robot, f_ext)
        steering = self._steering(gains, target, ())
        inputs = [*state, *([] if wrenches is None else [wrenches.ravel()]), *steering]
        kernel = self._held_kernel(wrenches is not None, bool(steering))
        found, finite = kernel.one(*inputs, out=out)
        if not finite:
            reference = self._dense(wrenches is not None, bool(steering))
            found = reference.one(*inputs, out=out)[0]
        return self._held_solution(state, wrenches, found, not finite)

    def _solve_batch_held(
        self,
        q: Any,
        qd: Any,
        given: Any,
        f_ext: WrenchInput,
        threads: int,
        out: Any,
        gains: Gains,
        target: Any,
    ) -> Solution:
        me = cast("AbstractDynamics", self)
        states = state_rows(me.robot, (("q", q), ("qd", qd), (me.given, given)))
        n, out = len(states[0]), self._held_targets(out)
        states = apart_from(states, out)
        wrenches = wrench_rows(me.robot, f_ext, n)
        steering = self._steering(gains, target, (n,))
        inputs = [*states, *([] if wrenches is None else [wrenches.reshape(n, -1)]), *steering]
        kernel = self._held_kernel(wrenches is not None, bool(steering))
        answers, finite = kernel.batch(*inputs, out=out, threads=threads)
        if not finite:
            reference = self._dense(wrenches is not None, bool(steering))
            bad = ~np.all([np.isfinite(answer).all(axis=1) for answer in answers], axis=0)
            for k in np.flatnonzero(bad).tolist():
                rows = [answer[k] for answer in answers]
                reference.one(*(x[k] for x in inputs), out=rows, where=f"state {k}: ")
        return self._held_solution(states, wrenches, answers, not finite)

    def _held_targets(self, out: Any) -> Sequence[Array] | None:
        """``out`` as kernels take it: arrays of the answers, those of wrenches the last."""
        if out is not None and len(out) != len(self.outputs):
            raise StateError(
                f"out: expected {len(self.outputs)} arrays {list(self.outputs)}, where"
                f" constraints hold; got {len(out)}"
            )
        return cast("Sequence[Array] | None", out)

    def _steering(self, gains: Gains, target: Any, batch: tuple[int, ...]) -> list[Array]:
        """Gains (2 n,) and target accelerations (rows,) as kernels take them, or []."""
        if gains is None and target is None:
            return []
        held = self._require_constraints()
        if held.is_inverse:
            raise StateError(
                "gains and targets steer accelerations, all of which are given here; add what"
                " they ask for to qdd, or ask ForwardDynamics with the same constraints"
            )
        names = [constraint.name for constraint in held.constraints]
        rows = row_labels(held.constraints)
        pairs = np.zeros((len(names), 2))
        both = (0.0, 0.0) if gains is None else gains
        by_name = both if isinstance(both, Mapping) else dict.fromkeys(names, both)
        for name, pair in by_name.items():
            if name not in names:
                raise StateError(
                    f"gains of {name!r}: there is no such constraint among {names}"
                )
            numbers = _numbers(pair, f"gains of constraint {name!r}")
            if numbers.shape != (2,) or not (np.isfinite(numbers) & (numbers >= 0)).all():
                raise StateError(
                    f"gains of constraint {name!r} are stiffness (1/s^2) and damping (1/s),"
                    f" neither below zero; got {pair!r}"
                )
            pairs[names.index(name)] = numbers
        wanted = np.zeros(len(rows)) if target is None else _numbers(target, "target")
        if wanted.shape not in ((len(rows),), (*batch, len(rows))):
            raise StateError(
                f"target must hold the accelerations of the {len(rows)} rows {rows}, got shape"
                f" {wanted.shape}"
            )
        if not np.isfinite(wanted).all():
            raise StateError("target holds a number that is not finite")
        shapes = (*batch, pairs.size), (*batch, len(rows))
        return [
            np.ascontiguousarray(np.broadcast_to(x, shape))
            for x, shape in zip((pairs.ravel(), wanted), shapes, strict=True)
        ]

    def _dense(self, wrenches: bool, steered: bool) -> DenseConstrained:
        me = cast("AbstractDynamics", self)
        return DenseConstrained(me._spec(self.outputs, wrenches, steered=steered))

    def _held_solution(
        self,
        state: Sequence[Array],
        wrenches: Array | None,
        answers: Sequence[Array],
        fallback: bool,
    ) -> Solution:
        me = cast("AbstractDynamics", self)
        q, qd, given = (x.copy() for x in state)
        acting = None if wrenches is None else wrenches.copy()
        found = dict(zip(self.outputs, answers, strict=True))
        torque, qdd = (found.get(name, given) for name in ("torque", "qdd"))
        return Solution(me, torque, qdd, q, qd, acting, fallback, found[CONSTRAINT_WRENCH])

    # ---- beside solving --------------------------------------------------------------------

    def close(self, q: ArrayLike) -> Array:
        """Configuration near q (nq,) at which the constraints hold: loops closed.

        Raises
        ------
        StateError
            if none is found from there, naming the constraint that is furthest open.
        """
        held, robot = self._require_constraints(), cast("AbstractDynamics", self).robot
        found, error = closest_configuration(robot, held.constraints, robot.check_q(q))
        if error > CLOSED:
            open_rows = np.abs(held.dense(found).error)
            where = zip(held.constraints, row_slices(held.constraints), strict=True)
            name = max(where, key=lambda each: open_rows[each[1]].max())[0].name
            raise StateError(
                f"robot {robot.name!r}: no configuration near this one closes constraint"
                f" {name!r}; {error:.2g} m or rad are left. Start from another q"
            )
        return found

    def verdict(self, *, samples: int = 8, seed: int = 0) -> HeldVerdict:
        """What the constraints determine, and what not: which wrenches are internal, say.

        Sampled at random configurations where the constraints hold; see
        :mod:`problems.verdict.held`.
        """
        return judge_held(self._require_constraints(), samples=samples, seed=seed)

    @cached_property
    def _impulse_spec(self) -> ImpulseSpec:
        held = self._require_constraints()
        if held.is_inverse:
            raise ModelError(
                "impulses change velocities, which inverse dynamics is given; ask"
                " ForwardDynamics with the same constraints"
            )
        return ImpulseSpec(held)

    @cached_property
    def _impulse_kernel(self) -> AbstractKernel:
        me = cast("AbstractDynamics", self)
        return impulse_kernel(self._impulse_spec, backend=me._executes)

    def impulse(
        self,
        q: ArrayLike,
        v: ArrayLike,
        restitution: float | Mapping[str, float] = 0.0,
    ) -> Impact:
        """Velocities after the constraints begin to hold, and the impulses that do it.

            H (v+ - v) = J^T impulse       J v+ = - restitution J v

        One state, or N: q (N, nq), v (N, nv). Without restitution, v+ is the velocity nearest
        to v, in kinetic energy, that the constraints allow. Joints whose acceleration is known
        keep their velocity.

        Parameters
        ----------
        restitution : of all constraints, or by name; 0 for those that are not named.
        """
        robot, spec = cast("AbstractDynamics", self).robot, self._impulse_spec
        names = [constraint.name for constraint in spec.held.constraints]
        bounce = np.zeros(len(names))
        if isinstance(restitution, Mapping):
            given = dict(restitution)
        else:
            given = dict.fromkeys(names, restitution)
        for name, value in given.items():
            number = _numbers(value, f"restitution of {name!r}")
            if name not in names or number.shape != () or not 0 <= number <= 1:
                raise StateError(
                    f"restitution of {name!r} is {value!r}: a number from 0 to 1 for some of"
                    f" the constraints {names}"
                )
            bounce[names.index(name)] = number
        positions, velocities = _numbers(q, "q"), _numbers(v, "v")
        single = positions.ndim == velocities.ndim == 1
        if single:
            positions, velocities = positions[None], velocities[None]
        states = finite_rows(robot, (("q", positions), ("v", velocities)))
        inputs = [
            *states,
            np.ascontiguousarray(np.broadcast_to(bounce, (len(states[0]), len(names)))),
        ]
        (after, impulses), finite = self._impulse_kernel.batch(*inputs)
        if not finite:
            bad = ~(np.isfinite(after).all(axis=1) & np.isfinite(impulses).all(axis=1))
            for k in np.flatnonzero(bad).tolist():
                found = dense_impulse(spec.held, *(x[k] for x in inputs))
                _require_finite(robot, f"state {k}: ", "impulses", found)
                after[k], impulses[k] = found
        forces = NamedForces(spec.held.constraints, impulses[0] if single else impulses)
        return Impact(after[0] if single else after, forces)

    def constraint_wrenches(
        self, state: tuple[Array, Array], forces: Array
    ) -> tuple[Array, Array]:
        """Wrenches (n_bodies, 6) on the bodies and torques (nv,) that forces of rows make."""
        held, robot = self._require_constraints(), cast("AbstractDynamics", self).robot
        return _wrenches_of(robot, held.constraints, state, forces)


class Impact(NamedTuple):
    """Velocities (nv,) after an impact, and the impulses by the names of the constraints."""

    v: Array
    impulse: NamedForces


def dense_impulse(held: HeldBy, q: Array, v: Array, restitution: Array) -> tuple[Array, Array]:
    """The twin of the kernel of impulses: singular values of L^-1 J^T, smallest impulses."""
    robot, free = held.robot, ~held.known
    rows = held.dense(q, v)
    bounce = np.repeat(1 + restitution, [constraint.size for constraint in held.constraints])
    L = _cholesky(robot, crba_scalars(robot, q)[np.ix_(free, free)])
    B = np.asarray(np.linalg.solve(L, rows.J[:, free].T), np.float64)
    impulse = _smallest_of(
        B, -bounce * rows.velocity, lambda missed: _contradicting(held, missed)
    )
    after = v.copy()
    after[free] += np.linalg.solve(L.T, B @ impulse)
    return after, impulse


def _cholesky(robot: KinematicTree, H: Array) -> Array:
    """L with H = L L^T; SingularSystemError if there is none."""
    try:
        return np.asarray(np.linalg.cholesky(H), np.float64)
    except np.linalg.LinAlgError:
        raise SingularSystemError(
            f"robot {robot.name!r}: its inertia matrix is singular at this state: some"
            " joint moves no inertia; give its bodies mass or the joint armature"
        ) from None


def _numbers(x: ArrayLike, what: str) -> Array:
    try:
        return float_array(x)
    except (TypeError, ValueError) as error:
        raise StateError(f"{what}: not numeric, {error}") from None


def _require_finite(
    robot: KinematicTree, where: str, what: str, found: Sequence[Array]
) -> None:
    if not all(np.isfinite(x).all() for x in found):
        raise StateError(
            f"{where}robot {robot.name!r}: {what} at this state overflow float64; check the"
            " units of q, velocities, torques and masses"
        )


def _smallest_of(
    B: Array, c: Array, contradiction: Callable[[Array], str], size: float = 0.0
) -> Array:
    """Smallest force with B^T B force = c; ContradictionError if there is none."""
    _, s, Vt = np.linalg.svd(B, full_matrices=False)
    length = np.linalg.norm(B, axis=0)
    scaled = B / np.where(length > RANK * length.max(initial=0.0), length, np.inf)
    rank = int((np.linalg.svd(scaled, compute_uv=False) > RANK).sum())
    V = Vt[:rank].T
    along = V.T @ c
    missed = np.abs(c - V @ along)
    if missed.max(initial=0.0) > CONTRADICTS * (NATURAL + np.abs(c).max(initial=0.0) + size):
        raise ContradictionError(contradiction(missed))
    return np.asarray(V @ (along / s[:rank] ** 2))


def _contradicting(held: HeldBy, missed: Array) -> str:
    rows = row_labels(held.constraints)
    worst = [rows[k] for k in np.argsort(-missed)[:4] if missed[k] > 0.1 * missed.max()]
    return (
        f"robot {held.robot.name!r}: its constraints contradict each other at this state: no"
        f" motion gives all rows what they ask for; {missed.max():.2g} (rad or m, per second or"
        f" its square) are missing, most along {', '.join(worst)}. Velocities that the"
        " constraints allow are found by problem.impulse(q, v), closed loops by"
        " problem.close(q)"
    )


def _wrenches_of(
    robot: KinematicTree,
    constraints: Sequence[Constraint],
    state: tuple[Array, Array],
    forces: Array,
) -> tuple[Array, Array]:
    q, qd = state
    if q.ndim == 2:
        found = [
            _wrenches_of(robot, constraints, (x, v), f)
            for x, v, f in zip(q, qd, forces, strict=True)
        ]
        return np.array([w for w, _ in found]), np.array([t for _, t in found])
    X_up = transforms(robot, q)
    wrenches, torque = np.zeros((robot.n_bodies, 6)), np.zeros(robot.nv)
    for constraint, where in zip(constraints, row_slices(constraints), strict=True):
        rows = constraint_rows(robot, constraint, robot, q, qd, 0 * qd, X_up)
        for body, unit in rows.wrenches.items():
            wrenches[body] += unit @ forces[where]
        for freedom, unit in rows.torques.items():
            torque[freedom] += unit @ forces[where]
    return wrenches, torque


# ---- dense algebra: the twin of the kernels, and what takes over where they stop ------------


@final
class DenseConstrained(AbstractReference):
    """Constrained dynamics by dense algebra: Cholesky of H, singular values of L^-1 J^T.

    z = L^T qdd = L^-1 (torque - C) + B force,   B = L^-1 J^T = U s V^T
    B^T z = target - drift        force = V s^-2 V^T (...), the smallest where s vanishes
    """

    def __init__(self, spec: DynamicsSpec) -> None:
        assert spec.held is not None
        self._spec, self._held, self.signature = spec, spec.held, spec.signature

    def answers(self, *inputs: ArrayLike) -> tuple[Array, ...]:
        robot, held, spec = self._spec.robot, self._held, self._spec
        arrays = dict(zip((name for name, _ in self.signature.inputs), inputs, strict=True))
        q = robot.check_q(arrays["q"])
        qd, given = (robot.check_v(arrays[name], name) for name in ("qd", spec.given))
        f_ext = arrays.get("f_ext")
        pushed = None if f_ext is None else np.asarray(f_ext, np.float64).reshape(-1, 6)
        rows = held.dense(q, qd)
        wanted = -rows.drift
        if spec.steered:
            gains = np.asarray(arrays["gains"], np.float64).reshape(-1, 2)
            each = np.repeat(gains, [c.size for c in held.constraints], axis=0)
            wanted = wanted + np.asarray(arrays["target"], np.float64)
            wanted = wanted - each[:, 0] * rows.error - each[:, 1] * rows.velocity
        imposed = np.where(spec.known, given, 0.0)
        bias = rnea_scalars(robot, q, qd, imposed, pushed)
        if held.is_inverse:
            force = self._smallest(rows.J, bias)
            found = {"torque": bias - rows.J.T @ force, "qdd": given}
            found["torque"][held.undriven] = 0.0
        else:
            found, force = self._moved(q, rows.J, wanted, given, bias)
        found[CONSTRAINT_WRENCH] = force
        _require_finite(robot, "", "accelerations, torques or forces", tuple(found.values()))
        try:
            return tuple(found[name] for name, _ in self.signature.outputs)
        except KeyError as error:
            raise KernelBuildError(
                f"dense constrained dynamics does not give {error}"
            ) from None

    def _smallest(self, J: Array, torque: Array) -> Array:
        """Smallest forces that carry the freedoms without a drive."""
        U = self._held.undriven
        force, *_ = np.linalg.lstsq(J[:, U].T, torque[U], rcond=RANK)
        missed = J[:, U].T @ force - torque[U]
        if np.abs(missed).max(initial=0.0) > CONTRADICTS * (1e-3 + np.abs(torque).max()):
            names = self._joints(U)
            raise SingularSystemError(
                f"robot {self._spec.robot.name!r}: no wrenches of its constraints and torques"
                f" of its drives give this acceleration: joint {names} has no drive, and"
                f" {np.abs(missed).max():.2g} N or N m are missing there; hold it by further"
                " constraints, or ask for another acceleration"
            )
        return np.asarray(force)

    def _joints(self, freedoms: BoolArray) -> str:
        robot = self._spec.robot
        pairs = zip(robot.joint_names, robot.v_slices(), strict=True)
        return ", ".join(repr(name) for name, v in pairs if freedoms[v].any())

    def _moved(
        self, q: Array, J: Array, wanted: Array, given: Array, bias: Array
    ) -> tuple[dict[str, Array], Array]:
        robot, known = self._spec.robot, self._spec.known
        free = ~known
        H = crba_scalars(robot, q)
        net = given - bias
        L = _cholesky(robot, H[np.ix_(free, free)])
        y = np.linalg.solve(L, net[free])
        B = np.asarray(np.linalg.solve(L, J[:, free].T), np.float64)
        c = wanted - J[:, known] @ given[known] - B.T @ y
        force = _smallest_of(
            B,
            c,
            lambda m: _contradicting(self._held, m),
            float(np.abs(wanted).max(initial=0.0)),
        )
        qdd = given.copy()
        qdd[free] = np.linalg.solve(L.T, y + B @ force)
        torque = given.copy()
        torque[known] = bias[known] + H[np.ix_(known, free)] @ qdd[free] - J[:, known].T @ force
        return {"qdd": qdd, "torque": torque}, force
