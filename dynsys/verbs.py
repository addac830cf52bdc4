"""rnea, aba, crba and jacobian as users call them: one state or a batch, fast when repeated.

The recursions of :mod:`dynsys.recursive` are written to be read: a millisecond per call. Here
they answer a robot's first call, and give way to machine code on the second:

    call      a robot of this machine's cache       a new one
    first     its machine code, loaded in 10 ms     the recursion
    second    about a microsecond                   0.1 to 2 s: compiled, kept on disk
    further   about a microsecond                   about a microsecond

A batch counts as a call, or as many if it has more than :data:`FEW` states. Machine code is
specialised to the robot (:mod:`dynsys.kernel`, shared with ``problems.InverseDynamics`` and
``ForwardDynamics``), or for large robots the loops that all of them share
(:mod:`dynsys.loops`). It is kept by the robot and goes with it. Where there is none for a robot
or a state, the recursion answers, or says what is wrong. Programs that ask each of many robots
a few times only call the recursions themselves: ``dynsys.recursive.rnea``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any, NamedTuple, NoReturn, TypeAlias, final

import numpy as np

from dynsys import recursive
from dynsys.errors import DynsysError, SingularSystemError, StateError
from dynsys.kernel.build import dynamics_kernel
from dynsys.kernel.calls import AbstractCompiledKernel
from dynsys.kernel.python_entry import FastCall
from dynsys.kernel.quantities import quantity_kernel
from dynsys.loops.jacobian import LoopJacobian
from dynsys.loops.loop_kernel import LoopInertiaMatrix, LoopKernel, prefer_loops
from dynsys.model.tree import KinematicTree
from dynsys.plan.record import DynamicsSpec
from dynsys.recursive.inputs import state_rows, wrench_rows
from dynsys.recursive.kinematics import WrenchInput, external_wrenches
from dynsys.types import Array, ArrayLike

__all__ = ["Verb", "aba", "answer_with", "crba", "jacobian", "rnea"]

FEW = 100
"""States that a first call may have without being worth a compilation."""
MOST_OPERATIONS = 16_000
"""Straight-line operations of forward dynamics up to which code is specialised: a second or
two to compile. The loops take a larger robot no longer than Pinocchio does."""
MOST_MATRIX, MOST_JACOBIAN = 52, 64
"""Freedoms up to which code for H and for a Jacobian is specialised."""
BODIES = 8
"""Bodies whose Jacobians are compiled at the second call. Further ones wait until the recursion
has taken as long as the last compilation: going over all bodies stays cheap."""


def rnea(
    robot: KinematicTree, q: ArrayLike, qd: ArrayLike, qdd: ArrayLike, f_ext: WrenchInput = None
) -> Array:
    """Torque (nv,) = H(q) qdd + C(q, qd) - sum J^T f_ext: inverse dynamics, O(n).

    A microsecond from the second call on; see :mod:`dynsys.verbs` for the first two.

    Parameters
    ----------
    robot : the robot; C holds friction and offsets where they are part of its equations.
    q, qd, qdd : position (nq,), velocity (nv,), acceleration (nv,); a leading axis N on each of
        them for N states, whose torques are (N, nv).
    f_ext : external wrenches, array (n_bodies, 6) or mapping of names to wrenches (6,), body
        coordinates; for a batch the same for all states, or with a leading axis N.

    Raises
    ------
    StateError
        if a vector has a wrong length or a value that is not finite, or only some have a
        leading axis.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> robot = dynsys.synthetic.chain(2)
    >>> dynsys.rnea(robot, np.zeros(2), np.zeros(2), np.zeros(2)).shape
    (2,)
    >>> dynsys.rnea(robot, np.zeros((5, 2)), np.zeros((5, 2)), np.zeros((5, 2))).shape
    (5, 2)
    """
    if f_ext is None and (code := robot._kept.get(("rnea", False))) is not None:
        torque = np.empty(robot.nv)
        if code.fast(q, qd, qdd, torque):
            return torque
    return answer_with(_RNEA, robot, (q, qd, qdd), f_ext)


def aba(
    robot: KinematicTree,
    q: ArrayLike,
    qd: ArrayLike,
    torque: ArrayLike,
    f_ext: WrenchInput = None,
) -> Array:
    """Acceleration qdd (nv,) with H qdd + C = torque + sum J^T f_ext: forward dynamics, O(n).

    Arguments and the time of the first calls are those of :func:`rnea`. Coupled (mimic) joints
    break the tree's sparsity: O(n^3).

    Raises
    ------
    StateError
        as :func:`rnea`.
    SingularSystemError
        naming the joint that moves no inertia.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> robot = dynsys.synthetic.chain(3)
    >>> q, qd, qdd = np.zeros(3), np.ones(3), np.array([1.0, 2.0, 3.0])
    >>> dynsys.aba(robot, q, qd, dynsys.rnea(robot, q, qd, qdd)).round(6).tolist()
    [1.0, 2.0, 3.0]
    """
    if f_ext is None and (code := robot._kept.get(("aba", False))) is not None:
        qdd = np.empty(robot.nv)
        if code.fast(q, qd, torque, qdd):
            return qdd
    return answer_with(_ABA, robot, (q, qd, torque), f_ext)


def crba(robot: KinematicTree, q: ArrayLike) -> Array:
    """Joint-space inertia matrix H (nv, nv) at q (nq,), armature included; O(n depth).

    (N, nv, nv) for q (N, nq). The time of the first calls is that of :func:`rnea`.

    Raises
    ------
    StateError
        if q has a wrong length or a value that is not finite.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> H = dynsys.crba(dynsys.synthetic.chain(3), np.zeros(3))
    >>> bool(np.allclose(H, H.T) and np.all(np.linalg.eigvalsh(H) > 0))
    True
    """
    if (code := robot._kept.get(("crba", False))) is not None:
        n = robot.nv
        H = np.empty(n * n)
        if code.fast(q, H):
            return H.reshape(n, n)
    return answer_with(_CRBA, robot, (q,))


def jacobian(robot: KinematicTree, q: ArrayLike, body: str | int) -> Array:
    """Jacobian (6, nv) of a body or named frame, in its own coordinates, angular part first.

    v_body = J qd; (N, 6, nv) for q (N, nq). The time of the first calls is that of
    :func:`rnea`, for each of the first :data:`BODIES` bodies of a robot.

    Raises
    ------
    StateError
        if q has a wrong length or a value that is not finite.
    ModelError
        if the robot has no body or frame of that name; says the nearest one.

    Examples
    --------
    >>> import dynsys
    >>> robot = dynsys.synthetic.humanoid30()
    >>> dynsys.jacobian(robot, robot.neutral(), robot.body_names[-1]).shape
    (6, 30)
    """
    if (code := robot._kept.get(("jacobian", body))) is not None:
        n = robot.nv
        J = np.empty(6 * n)
        if code.fast(q, J):
            return J.reshape(6, n)
    robot.frame(body)  # names what there is not
    return answer_with(_JACOBIAN, robot, (q,), body=body)


# ---- with checks and conversions ---------------------------------------------------------


Refusal: TypeAlias = Callable[[], NoReturn]
Build: TypeAlias = Callable[[KinematicTree, Any, Refusal | None], AbstractCompiledKernel]


class Verb(NamedTuple):
    """What tells one of them from the others.

    ``build(robot, about, program)`` makes the machine code; ``about`` is the body, or whether
    wrenches act. ``program``, if given, refuses to be recorded: what is on disk is taken only.
    """

    name: str
    vectors: tuple[str, ...]
    recursion: Callable[..., Array]
    build: Build
    shape: Callable[[KinematicTree], tuple[int, ...]]


def answer_with(
    verb: Verb,
    robot: KinematicTree,
    given: Sequence[ArrayLike],
    f_ext: WrenchInput = None,
    body: str | int | None = None,
) -> Array:
    """One state or a batch; the recursion answers, or says what is wrong, where code cannot."""
    if _is_batch(robot, verb, given):
        return _answer_rows(verb, robot, given, f_ext, body)
    state, wrenches = _checked(verb, robot, given), external_wrenches(robot, f_ext)
    machine = _machine(verb, robot, (wrenches is not None) if body is None else body)
    code = machine.code_for(robot, 1)
    if code is not None:
        (answer,), finite = code.one(*state, *(() if wrenches is None else (wrenches.ravel(),)))
        if finite:
            return np.asarray(answer.reshape(verb.shape(robot)))
    return machine.recursion(robot, state, wrenches if body is None else body)


def _answer_rows(
    verb: Verb,
    robot: KinematicTree,
    given: Sequence[ArrayLike],
    f_ext: WrenchInput,
    body: str | int | None,
) -> Array:
    """A batch; the recursion takes the states that machine code does not answer, one by one."""
    states = state_rows(robot, tuple(zip(verb.vectors, given, strict=True)))
    n, shape = len(states[0]), verb.shape(robot)
    wrenches = wrench_rows(robot, f_ext, n)
    machine = _machine(verb, robot, (wrenches is not None) if body is None else body)
    code = machine.code_for(robot, n) if n else None
    if code is None:
        answers, left = np.empty((n, *shape)), np.arange(n)
    else:
        acting = () if wrenches is None else (wrenches.reshape(n, -1),)
        (rows,), finite = code.batch(*states, *acting)
        left = np.arange(0) if finite else np.flatnonzero(~np.isfinite(rows).all(axis=1))
        answers = rows.reshape(n, *shape)
    for k in left:
        try:
            state = _checked(verb, robot, [x[k] for x in states])
            more = body if wrenches is None else wrenches[k]
            answers[k] = machine.recursion(robot, state, more)
        except (StateError, SingularSystemError) as error:
            raise type(error)(f"state {k}: {error}") from None
    return answers


def _checked(verb: Verb, robot: KinematicTree, given: Sequence[ArrayLike]) -> list[Array]:
    """One state as float64; StateError names what is wrong with it."""
    others = zip(given[1:], verb.vectors[1:], strict=True)
    return [robot.check_q(given[0]), *(robot.check_v(x, name) for x, name in others)]


def _is_batch(robot: KinematicTree, verb: Verb, given: Sequence[ArrayLike]) -> bool:
    """Whether all vectors have a leading axis; StateError if only some do."""
    axes = []
    for name, x in zip(verb.vectors, given, strict=True):
        try:
            axes.append(np.ndim(x))
        except ValueError as error:  # rows of unequal length
            raise StateError(
                f"{name} of robot {robot.name!r} is not numeric: {error}"
            ) from None
    if 2 in axes and set(axes) != {2}:
        batch = verb.vectors[axes.index(2)]
        one = next(name for name, k in zip(verb.vectors, axes, strict=True) if k != 2)
        raise StateError(
            f"robot {robot.name!r}: {batch} is a batch of states, {one} is not: give each of"
            f" {', '.join(verb.vectors)} a row per state, or ask for one state"
        )
    return 2 in axes


# ---- machine code that a robot has -------------------------------------------------------


class _NotOnDisk(Exception):
    """The code would have to be compiled."""


def _refuse() -> NoReturn:
    raise _NotOnDisk


@final
class _Machine:
    """Machine code of one question about a robot, from the time that it is worth having."""

    def __init__(self, verb: Verb, about: Any, effort: list[float]) -> None:
        self._verb, self._about = verb, about
        self._effort = effort  # of all questions with this verb: see code_for
        self._asked = 0
        self._impossible = False
        self._code: AbstractCompiledKernel | None = None
        self.fast: FastCall = lambda *_: None
        """Inputs, then outputs: True if the outputs are the answer."""

    def code_for(self, robot: KinematicTree, n: int) -> AbstractCompiledKernel | None:
        """Machine code for a call with n states if it is there, on disk, or worth compiling."""
        if self._code is not None or self._impossible:
            return self._code
        compiled, cost, spent = (
            self._effort
        )  # codes, seconds of the last, of the recursion since
        first, self._asked = self._asked == 0, self._asked + 1
        worth = n > FEW or (not first and (compiled < BODIES or spent >= cost))
        if not (worth or first):
            return None
        start = perf_counter()
        try:
            self._code = self._verb.build(robot, self._about, None if worth else _refuse)
        except _NotOnDisk:
            return None
        except (DynsysError, ImportError):  # this robot has none, or its loops no numba
            self._impossible = True
            return None
        if worth:
            self._effort[:] = compiled + 1, perf_counter() - start, 0.0
        self.fast = self._code.fast
        return self._code

    def recursion(self, robot: KinematicTree, state: Sequence[Array], more: Any) -> Array:
        """What the recursion answers; its time counts."""
        start = perf_counter()
        with np.errstate(over="ignore", invalid="ignore"):  # said below, in words
            answer = self._verb.recursion(robot, *state, *(() if more is None else (more,)))
        self._effort[2] += perf_counter() - start
        if not np.isfinite(answer).all():
            raise StateError(
                f"robot {robot.name!r}: {self._verb.name} at this state overflows float64;"
                " check the units of its arguments and masses"
            )
        return answer


def _machine(verb: Verb, robot: KinematicTree, about: Any) -> _Machine:
    """What the robot keeps of a question: a verb, and the body or whether wrenches act."""
    kept = robot._kept
    if (verb.name, about) not in kept:
        effort = kept.setdefault(verb.name, [0.0, 0.0, 0.0])
        kept[verb.name, about] = _Machine(verb, about, effort)
    machine: _Machine = kept[verb.name, about]
    return machine


# ---- the four ----------------------------------------------------------------------------


def _dynamics(known: bool, given: str, found: str) -> Build:
    def build(
        robot: KinematicTree, pushed: bool, program: Refusal | None
    ) -> AbstractCompiledKernel:
        mask = np.full(robot.nv, known)
        if prefer_loops(robot, MOST_OPERATIONS):
            return _loops(program, lambda: LoopKernel(robot, mask, given, (found,), pushed))
        spec = DynamicsSpec(robot, mask, given, (found,), pushed)
        return dynamics_kernel(spec, program=program)

    return build


def _inertia(robot: KinematicTree, _: bool, program: Refusal | None) -> AbstractCompiledKernel:
    if robot.nv > MOST_MATRIX:
        return _loops(program, lambda: LoopInertiaMatrix(robot))
    return quantity_kernel(robot, "inertia", (), program=program)


def _jacobian(
    robot: KinematicTree, body: str | int, program: Refusal | None
) -> AbstractCompiledKernel:
    if robot.nv > MOST_JACOBIAN:
        return _loops(program, lambda: LoopJacobian(robot, body))
    return quantity_kernel(robot, "jacobian", (body,), program=program)


def _loops(
    program: Refusal | None, make: Callable[[], AbstractCompiledKernel]
) -> AbstractCompiledKernel:
    """Loops, if they are worth being loaded: numba alone takes a tenth of a second."""
    return make() if program is None else program()


def _freedoms(robot: KinematicTree) -> tuple[int, ...]:
    return (robot.nv,)


_RNEA = Verb(
    "rnea", ("q", "qd", "qdd"), recursive.rnea, _dynamics(True, "qdd", "torque"), _freedoms
)
_ABA = Verb(
    "aba", ("q", "qd", "torque"), recursive.aba, _dynamics(False, "torque", "qdd"), _freedoms
)
_CRBA = Verb("crba", ("q",), recursive.crba, _inertia, lambda robot: (robot.nv, robot.nv))
_JACOBIAN = Verb("jacobian", ("q",), recursive.jacobian, _jacobian, lambda robot: (6, robot.nv))
