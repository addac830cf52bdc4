"""dynsys.operational_space: the dynamics of tasks, and the torque that controls them.

    Lambda^-1 = J H^-1 J^T     Jbar = H^-1 J^T Lambda     N = 1 - Jbar J     [OSI] eq. 7, 9, 10
    xdd = Lambda^-1 F + beta    beta = Jdot qd - J H^-1 C                      eq. 3, 8
    F = Lambda xdd + mu + rho   torque = J^T F + N^T torque_0                  eq. 4, 11

C holds Coriolis, centrifugal and gravity terms, and friction where it is part of the robot's
equations. Lambda^-1 comes from any of several methods; several levels of tasks, damping near
singularities, contacts and freedoms without a drive from :mod:`dynsys.operational.hierarchy`
and :mod:`dynsys.operational.projection`. Machine code for all of it:
:mod:`dynsys.operational.task_kernel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import final

import numpy as np

from dynsys.errors import KernelBuildError, ModelError, SingularSystemError, StateError
from dynsys.kernel.c.source import CType
from dynsys.kernel.cache import KernelCache
from dynsys.kernel.kernel import Kernel
from dynsys.kernel.python_entry import FastCall
from dynsys.loops.tree_state import TreeState
from dynsys.model.joints import Free
from dynsys.model.tree import KinematicTree
from dynsys.operational.hierarchy import (
    SMALLEST,
    Damped,
    Levels,
    check_damping,
    leading_names,
    mobility_scale,
)
from dynsys.operational.method import make_method
from dynsys.operational.moving_frames import MovingFrames
from dynsys.operational.projection import Projection
from dynsys.operational.task_kernel import CONTROLLER, TaskProgram
from dynsys.operational.tasks import Task, Tasks, TaskSpace, as_levels, as_tasks
from dynsys.types import Array, ArrayLike, IntArray, float_array
from dynsys.verbs import aba, crba

__all__ = ["OperationalDynamics", "OperationalSpace", "operational_space"]


def operational_space(
    robot: KinematicTree,
    q: ArrayLike,
    tasks: Tasks,
    qd: ArrayLike | None = None,
    method: str = "auto",
    *,
    contacts: Task | Sequence[Task] = (),
    actuated: str | Sequence[str] | None = None,
    damping: float | None = None,
) -> OperationalDynamics:
    """Operational-space dynamics of some tasks of a robot at q, and at qd if it is given.

    Parameters
    ----------
    robot : the robot.
    q, qd : position (nq,), velocity (nv,).
    tasks : what the operational coordinates are, in order: names (or numbers) of bodies and
        frames, six coordinates each, in their own frame and angular first; or tasks:
        ``BodyMotion``, ``RelativeMotion(a, b)``, ``CentreOfMass()``, ``Posture(joints)``. A
        list of lists has levels: later ones get what earlier ones leave free.
    method : how Lambda^-1 is found. All give the same numbers; which is fastest depends on n
        freedoms, depth d of the tree and m operational bodies:

        - "auto": one of the next three, whichever is expected to be fastest here by measured
          costs ("dense" with coupled joints).
        - "y_factor" ([OSI]): O(n d^2 + m d^2 + m^2 d). Robots of up to a hundred or so
          freedoms, and larger ones with short branches. Its factors also serve Jbar and N.
        - "chang_khatib" ([CK]): O(n m). Long chains with few operational bodies.
        - "pv_osimr" (PV-OSIMr): O(n + m^2). Long chains with any number of them.
        - "rjk" ([ROD], [OSI] appendix B): O(n + m^2 d). For comparison; never the fastest.
        - "dense": J H^-1 J^T with plain matrices, O(n^3). The reference, and the only one that
          takes coupled (mimic) joints.

        Modules put into ``dynsys.operational.methods`` are found by name, too.
    contacts : tasks that do not move: their forces hold them, whatever the torque. Lambda_inv,
        Jbar, N, beta, mu, rho and the torque are then those of the robot in contact (dense).
    actuated : names of the joints that have a drive, "joints" for all but free ones; None for
        all. The torque is zero at the others.
    damping : share of its free mobility below which a direction is damped, such as 1e-4; see
        :mod:`dynsys.operational.hierarchy`. None: singularities of the first level are errors.

    Returns
    -------
    Lambda_inv (m, m) and, computed when asked for, Lambda, J, Jbar and N; with qd also
    velocity, Jdot_qd, beta, mu, rho and ``torque(acceleration, posture)``. For many states make
    an :class:`OperationalSpace` once and call its ``at(q, qd)``, or ``compile()`` it.

    Raises
    ------
    StateError
        if q or qd has a wrong length or a value that is not finite.
    ModelError
        for an unknown body or method, or a robot with coupled joints (only "dense" takes them).

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> from dynsys.operational import operational_space
    >>> robot = dynsys.synthetic.humanoid30()
    >>> q, qd = robot.neutral(), np.ones(30)
    >>> x = operational_space(robot, q, ["left_leg_6", "right_arm_6"], qd)
    >>> x.Lambda_inv.shape, x.Jbar.shape, x.N.shape
    ((12, 12), (30, 12), (30, 30))
    >>> wanted = np.arange(12.0)
    >>> qdd = dynsys.aba(robot, q, qd, x.torque(wanted))
    >>> bool(np.allclose(x.J @ qdd + x.Jdot_qd, wanted))
    True
    """
    space = OperationalSpace(
        robot, tasks, method, contacts=contacts, actuated=actuated, damping=damping
    )
    return space.at(q, qd)


@final
class OperationalSpace:
    """An operational space of one robot, analysed once; ``at(q, qd)`` gives its dynamics.

    Parameters are those of :func:`operational_space`.
    """

    def __init__(
        self,
        robot: KinematicTree,
        tasks: Tasks,
        method: str = "auto",
        *,
        contacts: Task | Sequence[Task] = (),
        actuated: str | Sequence[str] | None = None,
        damping: float | None = None,
    ) -> None:
        check_damping(damping)
        levels = as_levels(tasks)
        held = as_tasks(contacts)
        self.robot, self.damping = robot, damping
        self.space = TaskSpace(robot, [task for level in levels for task in level])
        self.contacts = TaskSpace(robot, held) if held else None
        self.undriven = _undriven(robot, actuated)
        self.levels = _rows_of(levels, self.space)
        self.is_projected = self.contacts is not None or len(self.undriven) > 0
        self.method = make_method(method, robot, self.space)
        self._asked, self._no_push = False, np.zeros(robot.nv)
        self._fast: FastCall | None = None

    def at(self, q: ArrayLike, qd: ArrayLike | None = None) -> OperationalDynamics:
        """Operational-space dynamics at q (nq,) and, if given, qd (nv,)."""
        robot = self.robot
        velocity = None if qd is None else robot.check_v(qd, "qd")
        return OperationalDynamics(self, robot.check_q(q), velocity)

    def torque(
        self,
        q: ArrayLike,
        qd: ArrayLike,
        acceleration: ArrayLike,
        posture: ArrayLike | None = None,
    ) -> Array:
        """``at(q, qd).torque(acceleration, posture)``, by machine code from the second call on.

        What machine code cannot answer, a singular state for one, is left to ``at(q, qd)``,
        with its levels, its damping and its errors.
        """
        if self._fast is not None:
            push = self._no_push if posture is None else posture
            out = np.empty(self.robot.nv)
            if self._fast(q, qd, acceleration, push, out) and self._may_push(push):
                return out
        elif self._asked:
            try:
                self._fast = self.compile(("torque",)).fast
            except KernelBuildError:  # coupled joints, more tasks than freedoms
                self._fast = lambda *_: None
        self._asked = True
        return self.at(q, qd).torque(acceleration, posture)

    def _may_push(self, posture: ArrayLike) -> bool:
        """Whether no posture torque is at a freedom without a drive."""
        return not len(self.undriven) or not np.asarray(posture)[self.undriven].any()

    def compile(
        self,
        outputs: Sequence[str] = CONTROLLER,
        *,
        dtype: str = "float64",
        cache: KernelCache | None = None,
    ) -> Kernel:
        """Machine code for some outputs at one state or a batch, each flattened.

        Parameters
        ----------
        outputs : of :data:`dynsys.operational.task_kernel.OUTPUTS`, in the order wanted.
            Inputs are q, qd, acceleration (m,), posture (nv,), as far as outputs need them.

        Returns
        -------
        kernel with ``kernel.one(q, qd, acceleration, posture)`` and ``kernel.batch(...)``: the
        outputs, and whether they are finite. NaN where a quaternion is bad or a pivot of
        Lambda_inv or of the contacts almost vanishes, and for torques where damping may change
        them: such states are for :meth:`at`.

        Raises
        ------
        KernelBuildError
            for an unknown output, coupled joints, or more coordinates than freedoms.
        """
        return self._program(outputs).kernel(dtype, cache)

    def export_c(
        self,
        folder: str | Path,
        outputs: Sequence[str] = CONTROLLER,
        *,
        name: str = "operational_space",
        dtype: CType = "float64",
        overwrite: bool = False,
    ) -> list[Path]:
        """Write what :meth:`compile` compiles as dependency-free C99; returns the files.

        With header, self-test and CMake file.
        """
        return self._program(outputs).export_c(folder, name, dtype, overwrite)

    def _program(self, outputs: Sequence[str]) -> TaskProgram:
        return TaskProgram(self.space, self.contacts, self.undriven, outputs, self.damping)


def _undriven(robot: KinematicTree, actuated: str | Sequence[str] | None) -> IntArray:
    """Freedoms without a drive, ascending."""
    driven = np.ones(robot.nv, dtype=bool)
    leading = [i for i, body in enumerate(robot.bodies) if body.coupling is None]
    if isinstance(actuated, str) and actuated == "joints":
        for i in leading:
            driven[robot.v_slices()[i]] = not isinstance(robot.joints[i], Free)
    elif actuated is not None:
        driven[:] = False
        for name in [actuated] if isinstance(actuated, str) else actuated:
            driven[robot.v_slice(name)] = True
    if not driven.any():
        raise ModelError(f"robot {robot.name!r}: no joint with a drive is named by actuated")
    return np.flatnonzero(~driven)


def _rows_of(levels: Sequence[Sequence[object]], space: TaskSpace) -> tuple[slice, ...]:
    ends = np.cumsum([0, *map(len, levels)])
    rows = space.first_row[ends].tolist()
    return tuple(slice(a, b) for a, b in pairwise(rows))


@final
class OperationalDynamics:
    """Operational-space dynamics at one state; see :func:`operational_space`.

    All but Lambda_inv is computed when it is first asked for.
    """

    def __init__(self, space: OperationalSpace, q: Array, qd: Array | None) -> None:
        self._space, self.q, self.qd = space, q, qd
        self._state = TreeState(space.robot, q)
        if not space.is_projected:
            self.Lambda_inv = space.method.lambda_inv(self._state)  # says what is singular
            if not np.isfinite(self.Lambda_inv).all():
                raise StateError(
                    f"robot {space.robot.name!r}: Lambda_inv overflows float64 at this state;"
                    " check the units of q, masses and rows of tasks"
                )

    @property
    def names(self) -> tuple[str, ...]:
        """Name of every operational coordinate."""
        return self._space.space.names

    # ---- of q ---------------------------------------------------------------------------

    @cached_property
    def J(self) -> Array:
        """Task Jacobian (m, nv): xd = J qd ([OSI] eq. 5)."""
        return self._space.method.jacobian(self._state)

    @cached_property
    def Lambda_inv(self) -> Array:
        """Inverse inertia (m, m) of the coordinates ([OSI] eq. 7)."""
        return self._projection.Lambda_inv

    @cached_property
    def Lambda(self) -> Array:
        """Operational-space inertia (m, m).

        Raises
        ------
        SingularSystemError
            if Lambda_inv has no inverse, naming the coordinates that cannot move freely.
        """
        scale = self._scale
        values, vectors = np.linalg.eigh(self._mobility / np.outer(scale, scale))
        if values[0] <= SMALLEST * len(values):
            raise self._immobile(vectors[:, 0])
        return np.asarray((vectors / values) @ vectors.T / np.outer(scale, scale))

    @cached_property
    def Jbar(self) -> Array:
        """Dynamically consistent inverse of J (nv, m): J Jbar = 1 ([OSI] eq. 9)."""
        if not self._space.is_projected:
            return self._space.method.jbar(self._state, self.J, self.Lambda)
        return self._projection.moved(self._projection.torque(self.Lambda))

    @cached_property
    def N(self) -> Array:
        """Null-space projection (nv, nv): torques N^T t0 move no coordinate ([OSI] eq. 10)."""
        if not self._space.is_projected:
            return self._space.method.null_space(self.J, self.Jbar)
        driven = np.eye(self._space.robot.nv)
        driven[self._space.undriven] = 0.0
        moved = self._projection.moved(driven)
        return (driven - self._projection.torque(self.Lambda @ (self.J @ moved))).T

    @cached_property
    def damped(self) -> tuple[Damped, ...]:
        """Directions that do not get the whole acceleration that ``torque`` is asked for."""
        return self._levels.damped

    # ---- of q and qd --------------------------------------------------------------------

    @cached_property
    def velocity(self) -> Array:
        """xd = J qd (m,)."""
        return np.asarray(self.J @ self._moving("velocity"))

    @cached_property
    def Jdot_qd(self) -> Array:
        """dJ/dt qd (m,): acceleration of the coordinates at qdd = 0."""
        frames = MovingFrames(self._space.robot, self.q, self._moving("Jdot_qd"))
        found = np.asarray(self._space.space.bias(frames), dtype=np.float64)
        if not np.isfinite(found).all():
            k = int(np.flatnonzero(~np.isfinite(found))[0])
            raise StateError(f"Jdot_qd[{k}] ({self.names[k]}) overflows at this velocity")
        return found

    @cached_property
    def beta(self) -> Array:
        """Acceleration (m,) of the coordinates without torque ([OSI] eq. 3, 8)."""
        return self._under(np.zeros(self._space.robot.nv))

    @cached_property
    def rho(self) -> Array:
        """Force (m,) that carries the robot's weight at rest ([OSI] eq. 4)."""
        still = np.zeros(self._space.robot.nv)
        return -self.Lambda @ self.J @ self._accelerated(still, still)

    @cached_property
    def mu(self) -> Array:
        """Coriolis and centrifugal force (m,): mu + rho = -Lambda beta ([OSI] eq. 4)."""
        return -self.Lambda @ self.beta - self.rho

    def torque(self, acceleration: ArrayLike, posture: ArrayLike | None = None) -> Array:
        """Torque (nv,) = J^T F + N^T posture that accelerates the coordinates ([OSI] eq. 11).

        Parameters
        ----------
        acceleration : xdd (m,), the rate of ``velocity``: forward dynamics gives it back.
        posture : torque (nv,) whose part that moves no coordinate is added.

        Raises
        ------
        SingularSystemError
            naming coordinates of the first level that no torque accelerates, unless the
            operational space has damping.
        """
        wanted = self._vector(acceleration, "acceleration", len(self.names))
        given = self._posture(posture)
        f = self._levels.forces(wanted - (self.beta if posture is None else self._under(given)))
        if not self._space.is_projected:
            return np.asarray(given + self.J.T @ f)
        return given + self._projection.torque(f)

    def contact_forces(self, torque: ArrayLike) -> Array:
        """Forces (c,) that hold the contacts' coordinates when a torque (nv,) acts.

        They are those of smallest norm, scaled, where contacts are redundant.
        """
        if self._space.contacts is None:
            raise ModelError("this operational space has no contacts")
        tau = self._space.robot.check_v(torque, "torque")
        free = aba(self._space.robot, self.q, self._moving("contact_forces"), tau)
        return self._projection.held(free, self._contact_bias)[1]

    # ---- what they share ----------------------------------------------------------------

    def _under(self, torque: Array) -> Array:
        """Acceleration of the coordinates under a torque."""
        qdd = self._accelerated(self._moving("beta"), torque)
        return np.asarray(self.J @ qdd + self.Jdot_qd)

    def _accelerated(self, qd: Array, torque: Array) -> Array:
        """Acceleration qdd (nv,) under a torque, contacts held."""
        qdd = aba(self._space.robot, self.q, qd, torque)
        if self._space.contacts is None:
            return qdd
        bias = self._contact_bias if qd is self.qd else np.zeros(self._space.contacts.m)
        return self._projection.held(qdd, bias)[0]

    @cached_property
    def _contact_bias(self) -> Array:
        assert self._space.contacts is not None
        frames = MovingFrames(self._space.robot, self.q, self._moving("contacts"))
        return np.asarray(self._space.contacts.bias(frames), dtype=np.float64)

    @cached_property
    def _mobility(self) -> Array:
        """Lambda_inv, where coordinates that nothing moves have zeros in place of rounding."""
        moved = self._space.space.moved(self.J)
        return np.where(np.outer(moved, moved), self.Lambda_inv, 0.0)

    @cached_property
    def _levels(self) -> Levels:
        space = self._space
        M, scale = self._mobility, self._scale
        return Levels(M, scale, space.levels, self.names, space.damping, self._immobile)

    @property
    def _scale(self) -> Array:
        """Root of the free mobility (m,) of the coordinates."""
        if self._space.is_projected:
            return self._projection.free_scale
        space = self._space.space
        return mobility_scale(self._mobility, space.alike, space.natural_mobility)

    @cached_property
    def _projection(self) -> Projection:
        space, held = self._space, self._space.contacts
        Jc = np.zeros((0, space.robot.nv)) if held is None else self._dense(held)
        H = crba(space.robot, self.q)
        try:
            own = space.space
            natural_c = np.zeros(0) if held is None else held.natural_mobility
            kinds = own.alike, own.natural_mobility, natural_c
            return Projection(H, self.J, Jc, space.undriven, *kinds)
        except np.linalg.LinAlgError:
            raise SingularSystemError(
                f"robot {space.robot.name!r}: its inertia matrix is not positive definite here;"
                " some joint moves no inertia: give its bodies mass or the joint armature"
            ) from None

    def _dense(self, space: TaskSpace) -> Array:
        if not space.robot.is_coupled:
            return space.jacobian(self._state)
        frames = MovingFrames(space.robot, self.q, self.q)
        return np.asarray(space.jacobian_scalars(frames.X_up), dtype=np.float64)

    def _moving(self, what: str) -> Array:
        if self.qd is None:
            raise StateError(
                f"{what} depends on velocity: operational_space(robot, q, tasks, qd)"
            )
        return self.qd

    def _posture(self, posture: ArrayLike | None) -> Array:
        robot, undriven = self._space.robot, self._space.undriven
        given = np.zeros(robot.nv) if posture is None else robot.check_v(posture, "posture")
        if given[undriven].any():
            k = int(undriven[np.flatnonzero(given[undriven])[0]])
            raise StateError(
                f"posture[{k}] is {given[k]}, at a freedom without a drive: leave it zero"
            )
        return given

    def _vector(self, x: ArrayLike, what: str, size: int) -> Array:
        try:
            array = float_array(x)
        except (TypeError, ValueError) as error:
            raise StateError(f"{what} is not numeric: {error}") from None
        if array.shape != (size,):
            raise StateError(f"{what} must have shape ({size},), got {array.shape}")
        if not np.isfinite(array).all():
            k = int(np.flatnonzero(~np.isfinite(array))[0])
            raise StateError(f"{what}[{k}] ({self.names[k]}) is {array[k]}")
        return array

    def _immobile(self, direction: Array) -> SingularSystemError:
        names = ", ".join(leading_names(direction, self.names))
        return SingularSystemError(
            f"robot {self._space.robot.name!r}: Lambda_inv ({len(self.names)} coordinates,"
            f" {self._space.robot.nv} freedoms) is singular here, it has no Lambda; no torque"
            f" accelerates some combination, mainly of {names}: leave one of these"
            " coordinates out, move away from this configuration, or give damping=1e-4"
        )
