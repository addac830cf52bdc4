"""Simulation of a robot: what drives it, what it touches, and a record of all that happened.

The step is compiled (:mod:`dynsys.simulation.step`, where the method is explained); this file
is what a user calls. Torque comes from position drives, from ``controller(state)``, or both:

    torque = kp (target - q) - kd qd        at the end of the step, stable at any gain

With q and qd of the end of the step a drive is implicit; to first order it adds
kd dt + kp dt^2 to the inertia of its own freedom and nothing to any other: an armature, while
there is a target. Free joints are not driven. Torques beyond the effort limits of the file are
cut; where a drive is cut it gives its limit.

From the file of the robot: limits of position (inelastic), effort, armature; constraints that
hold frames together, as closures; damping, dry friction and offsets where they are part of the
robot's equations (``load(friction="file")``, ``robot.with_friction()``). Damping is implicit.
Dry friction holds: |torque| <= coulomb, with the robot's ``smoothing`` as the speed at which it
is fully there.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias, final, get_args

import numpy as np

from dynsys.errors import (
    LogError,
    ModelError,
    SimulationWarning,
    SingularSystemError,
    StateError,
)
from dynsys.loops.flat import flat_robot
from dynsys.model.constraints import Constraint, checked_constraints
from dynsys.model.joints import Helical, Prismatic, Revolute, Spherical
from dynsys.model.tree import KinematicTree
from dynsys.recursive.constraint_rows import is_turned_over, turning_error
from dynsys.recursive.kinematics import wrench_numbers
from dynsys.resumable import written
from dynsys.simulation import step as compiled
from dynsys.simulation.contacts import Closure, ContactInertia, ContactPoints, Ground, Route
from dynsys.simulation.impulses import Solver, soften
from dynsys.simulation.motion import (
    bodies_of,
    body_velocities,
    motion_of,
    move,
    potential_and_kinetic,
)
from dynsys.simulation.step import Log, Setup
from dynsys.types import Array, ArrayLike, BoolArray, float_array

__all__ = ["Drives", "Integrator", "Record", "Simulation", "SimulationState"]

Integrator = Literal["midpoint", "semi_implicit", "explicit"]
Target: TypeAlias = Callable[[float], Array]
Wrenches: TypeAlias = Mapping[str, ArrayLike]

NEWTON_ROWS = 240
"""Most rows for which the direct solver is the default: its work grows with their cube."""
OPEN = 1e-4
"""How far (m, rad) a closure may be open at the start."""


@final
@dataclass(frozen=True, eq=False)
class SimulationState:
    """Position q (nq,), velocity v (nv,), time, and the impulses (K, 3) of the last step.

    ``impulses`` has a row per contact point: along the normal and the two tangents, N s.
    ``others`` are impulses at limits, dry joints and closures, to start the next step with.
    """

    q: Array
    v: Array
    time: float
    impulses: Array
    others: Array = field(default_factory=lambda: np.zeros(0))


@final
class Record:
    """What happened, one entry per step; arrays over the T steps made.

    | name                                    |                                         |
    |-----------------------------------------|-----------------------------------------|
    | time, energy, penetration               | at the start of the step: s, J, m       |
    | drive_work, contact_work, friction_work | done in it, J                           |
    | contacts                                | points that push                        |
    | steps, sweeps, residual, converged      | of the solver; residual in m/s          |
    | q, qd, qdd, torque, wrench              | samples, at ``sample_time``             |
    | forces, closure_wrenches                | by name, at the same time               |

    The samples q, qd, qdd, torque and wrench are those at which the step's equation of motion
    holds, to rounding: ``rnea(robot, q, qd, qdd, wrench)`` is the torque, friction and impulses
    at limits apart.
    """

    def __init__(self) -> None:
        self._logs: list[tuple[Log, int]] = []
        self._joined: tuple[int, Log] | None = None
        self._of: Simulation | None = None

    def __len__(self) -> int:
        return sum(count for _, count in self._logs)

    def _add(self, of: Simulation, log: Log, count: int) -> None:
        self._of = self._of or of
        self._logs.append((log, count))

    @property
    def _log(self) -> Log:
        if self._joined is None or self._joined[0] != len(self._logs):
            if not self._logs:
                raise StateError("the record is empty: nothing was simulated with it")
            parts = [[a[:count] for a in log] for log, count in self._logs]
            whole = Log(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
            self._logs, self._joined = [(whole, len(whole.q))], (1, whole)
        return self._joined[1]

    def _column(self, k: int) -> Array:
        return self._log.scalars[:, k]

    @property
    def time(self) -> Array:
        """Start of every step, s."""
        return self._column(compiled.TIME)

    @property
    def sample_time(self) -> Array:
        """Time of the samples q, qd, qdd, torque and forces, s."""
        assert self._of is not None
        half = 0.5 * self._of.dt if self._of.integrator == "midpoint" else 0.0
        return np.asarray(self.time + half)

    @property
    def energy(self) -> Array:
        """Kinetic and potential energy at the start of the step, J."""
        return self._column(compiled.ENERGY)

    @property
    def drive_work(self) -> Array:
        """Work of drives and controller, J."""
        return self._column(compiled.DRIVE_WORK)

    @property
    def contact_work(self) -> Array:
        """Work of contacts, limits and closures, J."""
        return self._column(compiled.CONTACT_WORK)

    @property
    def friction_work(self) -> Array:
        """Work of damping and dry friction of the joints, J."""
        return self._column(compiled.FRICTION_WORK)

    @property
    def penetration(self) -> Array:
        """Depth of the deepest point, m."""
        return self._column(compiled.PENETRATION)

    @property
    def contacts(self) -> Array:
        """Number of points that push."""
        return self._column(compiled.CONTACTS).astype(int)

    @property
    def steps(self) -> Array:
        """Newton steps."""
        return self._column(compiled.STEPS).astype(int)

    @property
    def sweeps(self) -> Array:
        """Sweeps of projected Gauss-Seidel."""
        return self._column(compiled.SWEEPS).astype(int)

    @property
    def residual(self) -> Array:
        """Velocity by which the impulses are wrong, m/s."""
        return self._column(compiled.RESIDUAL)

    @property
    def converged(self) -> BoolArray:
        """Whether the solver reached its tolerance."""
        return self._column(compiled.CONVERGED) > 0

    @property
    def q(self) -> Array:
        """Positions (T, nq)."""
        return self._log.q

    @property
    def qd(self) -> Array:
        """Velocities (T, nv)."""
        return self._log.qd

    @property
    def qdd(self) -> Array:
        """Accelerations (T, nv), contacts included."""
        return self._log.qdd

    @property
    def torque(self) -> Array:
        """Torques (T, nv) of drives and controller."""
        return self._log.torque

    @property
    def wrench(self) -> Array:
        """Wrench (T, n_bodies, 6) on each body but for gravity, body coordinates."""
        return self._log.wrench

    @property
    def forces(self) -> dict[str, Array]:
        """Contact forces (T, 3) by the name of the point, base coordinates, N."""
        sim = self._of
        assert sim is not None
        K = len(sim.points)
        rows = self._log.impulses[:, : 3 * K].reshape(-1, K, 3) / sim.dt
        world = rows @ sim.ground.axes
        return {name: world[:, c] for c, name in enumerate(sim.points.names)}

    @property
    def closure_wrenches(self) -> dict[str, Array]:
        """Wrenches (T, 6) by the name of the closure, in the axes of its first frame."""
        sim = self._of
        assert sim is not None
        count = len(sim.closures)
        rows = self._log.impulses[:, self._log.impulses.shape[1] - 6 * count :] / sim.dt
        return {c.name: rows[:, 6 * k : 6 * k + 6] for k, c in enumerate(sim.closures)}

    @property
    def drift(self) -> Array:
        """Energy (T - 1,) that came from nowhere, J, after every step but the last."""
        work = np.cumsum(self.drive_work + self.contact_work + self.friction_work)
        return np.asarray(self.energy[1:] - self.energy[0] - work[:-1])

    def arrays(self) -> dict[str, Array]:
        """All samples as the arrays of a log file: what ``dynsys simulate --record`` reads."""
        assert self._of is not None
        robot = self._of.robot
        found = {"time": self.sample_time, "q": self.q, "qd": self.qd, "qdd": self.qdd}
        for joint in robot.joint_names:
            if (place := robot.v_slice(joint)).stop > place.start:
                found[f"effort.{joint}"] = self.torque[:, place]
        found |= {f"contact.{name}": force for name, force in self.forces.items()}
        found |= {f"closure.{name}": f for name, f in self.closure_wrenches.items()}
        for i, body in enumerate(robot.body_names):
            found[f"wrench.{body}"] = self.wrench[:, i]
        return found

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write :meth:`arrays` to an ``.npz`` file, complete or not at all; return its path."""
        where = Path(path)
        if where.suffix != ".npz":
            raise StateError(f"a record is saved as .npz, not {where.name!r}")
        arrays: Any = self.arrays()
        with written(where, LogError) as part, part.open("wb") as stream:
            np.savez(stream, **arrays)
        return where


@final
class Simulation:
    """A robot over a plane, its arrays made once.

    Parameters
    ----------
    robot : the robot, without coupled joints.
    points : those of its points that may touch the ground; None for none.
    dt : step, s.
    ground : the plane.
    route : to the contact-space inertia. All but the compiled one, "y_factor", are for
        comparison: contacts alone, no limits, dry friction or closures.
    integrator : "midpoint", "semi_implicit" or "explicit": see :mod:`dynsys.simulation.step`.
    drives : position drives, or None.
    closures : frames that move together.
    constraints : further ones, ``"file"`` for those of the robot's file; () for none.
    limits, effort : False leaves out the limits of position or of effort in the file.
    solver : of the impulses: "newton", "gauss_seidel", or "auto" for the former unless there
        are hundreds of rows. ``tolerance`` is relative to the velocities to be changed.

    Raises
    ------
    ModelError
        for a step, route, integrator or closure that cannot be.

    Examples
    --------
    >>> import dynsys, numpy as np
    >>> from dynsys.simulation import Simulation
    >>> sim = Simulation(dynsys.synthetic.chain(2), dt=1e-3)
    >>> state, record = sim.run(sim.start([0.3, 0.0]), 100)
    >>> bool(abs(record.drift[-1]) < 1e-5), round(state.time, 6)
    (True, 0.1)
    """

    def __init__(
        self,
        robot: KinematicTree,
        points: ContactPoints | None = None,
        dt: float = 1e-3,
        ground: Ground | None = None,
        route: Route = "y_factor",
        integrator: Integrator = "midpoint",
        drives: Drives | None = None,
        closures: Sequence[Closure] = (),
        *,
        constraints: Sequence[Constraint] | Literal["file"] = "file",
        limits: bool = True,
        effort: bool = True,
        solver: Solver | Literal["auto"] = "auto",
        tolerance: float = 1e-9,
        sweeps: int = 2000,
    ) -> None:
        if not (dt > 0 and np.isfinite(dt)):
            raise ModelError(f"dt must be a positive number of seconds, got {dt!r}")
        if integrator not in get_args(Integrator):
            raise ModelError(
                f"no integrator {integrator!r}; there are: {', '.join(get_args(Integrator))}"
            )
        if solver not in ("auto", *get_args(Solver)):
            raise ModelError(
                f"no solver {solver!r}; there are: auto, {', '.join(get_args(Solver))}"
            )
        if points is not None and points.robot is not robot:
            raise ModelError(
                f"the contact points are of robot {points.robot.name!r}, another object than"
                f" the simulated {robot.name!r}: make them from this one"
            )
        self.robot, self.dt = robot, float(dt)
        self.points = ContactPoints(robot, []) if points is None else points
        self.ground = ground or Ground()
        self.integrator, self.drives, self.route = integrator, drives, route
        held = robot.constraints if isinstance(constraints, str) else constraints
        self.closures = (*closures, *map(Closure.of, checked_constraints(robot, held)))
        self.solver, self.tolerance = solver, float(tolerance)
        self._effort = np.array(robot.effort_limit) if effort else np.full(robot.nv, np.inf)
        if weak := [
            name
            for name, v in zip(robot.joint_names, robot.v_slices(), strict=True)
            if v.stop > v.start and not self._effort[v].any()
        ]:
            warnings.warn(
                f"robot {robot.name!r}: the effort limits of joints {', '.join(weak)} are zero,"
                " so that nothing drives them; effort=False leaves out all such limits",
                SimulationWarning,
                stacklevel=2,
            )
        flat = flat_robot(robot)
        self._flat, self._bodies = flat, bodies_of(flat)
        self._model = flat.model(np.zeros(robot.nv, dtype=bool))
        self._store, self._motion = flat.workspace(matrix=False), motion_of(self._bodies)
        self._setup = self._make_setup(limits, sweeps)
        self._inertia = lru_cache(maxsize=8)(self._contact_inertia)
        ContactInertia(flat, route)
        others = len(self._setup.limit) + len(self._setup.dry) + len(self.closures)
        if route != "y_factor" and others:
            raise ModelError(
                f"route {route!r} knows contacts alone: leave out limits (limits=False), joint"
                " friction and closures, or take the route 'y_factor'"
            )

    def _make_setup(self, limits: bool, sweeps: int) -> Setup:
        robot, ground, points, nv = self.robot, self.ground, self.points, self.robot.nv
        damping, constant = np.zeros(nv), np.zeros(nv)
        dry_place: list[int] = []
        dry: list[float] = []
        smoothing = 0.0
        if (law := robot.joint_friction) is not None:
            smoothing = law.smoothing
            mean = 0.5 * (law.coulomb + law.coulomb_minus)
            np.add.at(damping, law.place, law.viscous)
            np.add.at(constant, law.place, law.offset + 0.5 * (law.coulomb - law.coulomb_minus))
            dry_place = [int(k) for k, most in zip(law.place, mean, strict=True) if most > 0]
            dry = [float(most) for most in mean if most > 0]
        lower, upper = robot.position_limits
        limited = [
            (q.start, v.start)
            for q, v, joint in zip(
                robot.q_slices(), robot.v_slices(), robot.joints, strict=True
            )
            if isinstance(joint, (Revolute, Prismatic, Helical))
            and limits
            and (np.isfinite(lower[q.start]) or np.isfinite(upper[q.start]))
        ]
        places = [closure.places(robot) for closure in self.closures]
        rows = NEWTON_ROWS if self.solver == "auto" else int(1e9)
        numbers = (self.dt, ground.height, ground.friction, ground.restitution)
        correction = (ground.correction, ground.slop, ground.speed_limit)
        return Setup(
            np.array([*numbers, *correction, self.tolerance, smoothing]),
            get_args(Integrator).index(self.integrator),
            0 if self.solver == "gauss_seidel" else rows,
            int(sweeps),
            ground.axes,
            points.body,
            points.point,
            points.radius,
            points.rim,
            np.array(limited, dtype=np.intp).reshape(-1, 2),
            np.array([(lower[q], upper[q]) for q, _ in limited]).reshape(-1, 2),
            np.array(dry_place, dtype=np.intp),
            np.array(dry, dtype=np.float64),
            damping,
            constant,
            np.array([[body for body, _ in ends] for ends in places], dtype=np.intp).reshape(
                -1, 2
            ),
            np.array([[t.E for _, t in ends] for ends in places]).reshape(-1, 2, 3, 3),
            np.array([[t.r for _, t in ends] for ends in places]).reshape(-1, 2, 3),
            np.array([c.closed for c in self.closures], dtype=np.intp).reshape(-1, 6),
        )

    # ---- states --------------------------------------------------------------------------

    def start(self, q: ArrayLike, v: ArrayLike | None = None) -> SimulationState:
        """State at time zero.

        Raises
        ------
        StateError
            for a q or v that cannot be, or frames of a closure that are apart.
        """
        velocity = np.zeros(self.robot.nv) if v is None else self.robot.check_v(v, "v")
        rest, setup = np.zeros((len(self.points), 3)), self._setup
        position = self.robot.check_q(q).copy()
        if self.closures:
            self._move(position)
        for c, closure in enumerate(self.closures):
            E, p = compiled.closure_frame(self._motion, setup, c, 0)
            F, o = compiled.closure_frame(self._motion, setup, c, 1)
            held, R = np.flatnonzero(closure.closed).tolist(), E @ F.T
            wrong = np.concatenate([turning_error(R, held), E @ (p - o)])
            apart = float(np.abs(wrong * closure.closed).max())
            if is_turned_over(R, held):
                apart = max(apart, np.pi)
            if apart > OPEN:
                raise StateError(
                    f"closure {closure.name!r}: frames {closure.first!r} and"
                    f" {closure.second!r} are apart by {apart:.3g} (m, rad) at the start; for"
                    " constraints, problem.close(q) of constrained dynamics finds a q"
                )
        return SimulationState(position, velocity.copy(), 0.0, rest, np.zeros(self._others))

    def energy(self, state: SimulationState) -> float:
        """Kinetic and potential energy, J."""
        state = self._checked(state)
        self._move(state.q, state.v)
        return float(potential_and_kinetic(self._bodies, self._motion, state.v))

    def _move(self, q: Array, v: Array | None = None) -> None:
        move(self._model, self._store, self._bodies, self._motion, q)
        if v is not None:
            body_velocities(self._bodies, self._motion, v)

    # ---- steps ---------------------------------------------------------------------------

    def run(
        self,
        state: SimulationState,
        steps: int,
        target: Target | None = None,
        *,
        torque: ArrayLike | None = None,
        controller: Callable[[SimulationState], ArrayLike] | None = None,
        wrenches: Wrenches | Callable[[SimulationState], Wrenches] | None = None,
    ) -> tuple[SimulationState, Record]:
        """State after ``steps`` steps, and a record of them.

        Parameters
        ----------
        state : where to begin.
        steps : how many.
        target : ``target(time)`` gives q (nq,) for the drives.
        torque : constant torque (nv,).
        controller : ``controller(state)`` gives the torque (nv,) of the next step.
        wrenches : (6,) by frame, moment first, at the frame's origin and in its axes; or
            ``wrenches(state)`` that gives them.

        Raises
        ------
        StateError
            if the motion is no longer finite: the step is too long for the forces.
        """
        if not (isinstance(steps, (int, np.integer)) and steps >= 0):
            raise StateError(f"steps must be a whole number >= 0, got {steps!r}")
        state, record = self._checked(state), Record()
        log = self._new_log(int(steps))
        changes = target is not None or controller is not None or callable(wrenches)
        given = self._given_torque(torque)
        if not changes and self.route == "y_factor":
            inputs = (given, np.zeros(self.robot.nv), self._external(wrenches, state))
            state = self._advance(state, inputs, log, 0, int(steps))
        else:
            for k in range(int(steps)):
                inputs = self._inputs(state, target, given, controller, wrenches)
                state = self._advance(state, inputs, log, k, 1)
        record._add(self, log, int(steps))
        if steps:
            self._warn(record)
        return state, record

    def step(
        self,
        state: SimulationState,
        target: Target | None = None,
        record: Record | None = None,
        *,
        torque: ArrayLike | None = None,
        wrenches: Wrenches | None = None,
    ) -> SimulationState:
        """Advance by one step of dt; ``record`` takes what happened. See :meth:`run`."""
        state, log = self._checked(state), self._new_log(1)
        inputs = self._inputs(state, target, self._given_torque(torque), None, wrenches)
        after = self._advance(state, inputs, log, 0, 1)
        if record is not None:
            record._add(self, log, 1)
        elif not log.scalars[0, compiled.CONVERGED]:
            done = Record()
            done._add(self, log, 1)
            self._warn(done)
        return after

    def _checked(self, state: SimulationState) -> SimulationState:
        """The state as compiled code takes it; StateError if it is none of this simulation."""
        if not isinstance(state, SimulationState):
            raise StateError(f"a state of the simulation is wanted, got {state!r:.60}")
        q, v = self.robot.check_q(state.q), self.robot.check_v(state.v, "v")
        try:
            impulses, others = float_array(state.impulses), float_array(state.others)
        except (TypeError, ValueError) as error:
            raise StateError(f"impulses of the state are not numeric: {error}") from None
        same = impulses.shape == (len(self.points), 3) and others.shape == (self._others,)
        if not (same and np.isfinite(impulses).all() and np.isfinite(others).all()):
            raise StateError("the state is of another simulation: make it by sim.start")
        return SimulationState(q, v, state.time, impulses, others)

    @property
    def _others(self) -> int:
        """Impulses at limits, dry joints and closures."""
        setup = self._setup
        return 2 * len(setup.limit) + len(setup.dry) + 6 * len(self.closures)

    def _warn(self, record: Record) -> None:
        bad = np.flatnonzero(~record.converged)
        if len(bad):
            warnings.warn(
                f"robot {self.robot.name!r}: the impulses of {len(bad)} of {len(record)} steps"
                f" did not converge, the first at t = {record.time[bad[0]]:.6g} s; they are"
                f" wrong by up to {record.residual[bad].max():.3g} m/s (record.converged,"
                " record.residual); shorten dt or allow more sweeps",
                SimulationWarning,
                stacklevel=3,
            )

    def _new_log(self, steps: int) -> Log:
        robot = self.robot
        kept, nv = 3 * len(self.points) + self._others, robot.nv
        return Log(
            np.zeros((steps, compiled.SCALARS)),
            np.zeros((steps, robot.nq)),
            np.zeros((steps, nv)),
            np.zeros((steps, nv)),
            np.zeros((steps, nv)),
            np.zeros((steps, kept)),
            np.zeros((steps, robot.n_bodies, 6)),
        )

    def _given_torque(self, torque: ArrayLike | None) -> Array:
        if torque is None:
            return np.zeros(self.robot.nv)
        return np.clip(self.robot.check_v(torque, "torque"), -self._effort, self._effort)

    def _inputs(
        self,
        state: SimulationState,
        target: Target | None,
        given: Array,
        controller: Callable[[SimulationState], ArrayLike] | None,
        wrenches: Wrenches | Callable[[SimulationState], Wrenches] | None,
    ) -> tuple[Array, Array, Array]:
        """Torque, inertia added by drives, and wrenches on the bodies, of the next step."""
        torque, added = given, np.zeros(self.robot.nv)
        if controller is not None:
            torque = torque + self.robot.check_v(controller(state), "torque of the controller")
        if target is not None:
            if self.drives is None:
                raise StateError("a target needs drives: Simulation(..., drives=Drives(...))")
            wanted = self.robot.check_q(target(state.time + self.dt))
            torque = torque + self.drives.torque(state.q, state.v, wanted, self.dt)
            added = self.drives.inertia(self.dt)
        beyond = np.abs(torque) > self._effort
        if beyond.any():
            torque = np.clip(torque, -self._effort, self._effort)
            added = np.where(beyond, 0.0, added)
        return torque, added, self._external(wrenches, state)

    def _external(
        self,
        wrenches: Wrenches | Callable[[SimulationState], Wrenches] | None,
        state: SimulationState,
    ) -> Array:
        """Wrenches (n_bodies, 6) in body coordinates; (0, 6) for none."""
        if wrenches is None:
            return np.zeros((0, 6))
        found = wrenches(state) if callable(wrenches) else wrenches
        total = np.zeros((self.robot.n_bodies, 6))
        for name, wrench in found.items():
            frame = self.robot.frame(name)
            own = wrench_numbers(wrench, f"the wrench on {name!r}")
            if own.shape != (6,) or not np.isfinite(own).all():
                raise StateError(f"the wrench on {name!r} must be 6 finite numbers, got {own}")
            if frame.body < 0:
                raise StateError(f"a wrench on {name!r}, which is on the base, moves nothing")
            total[frame.body] += frame.transform.force_back(own)
        return total

    def _advance(
        self,
        state: SimulationState,
        inputs: tuple[Array, Array, Array],
        log: Log,
        first: int,
        count: int,
    ) -> SimulationState:
        q, v = state.q.copy(), state.v.copy()
        kept = np.concatenate([state.impulses.ravel(), state.others])
        if self.route == "y_factor":
            robot = (self._model, self._store, self._bodies, self._motion, self._setup)
            made = compiled.advance_steps(
                *robot, q, v, kept, state.time, *inputs, log, first, count
            )
        else:
            made = self._by_route(q, v, kept, state.time, inputs, log, first)
        finite = np.isfinite(q).all() and np.isfinite(self._motion.E).all()
        if made < 0 and finite:
            body = int(np.searchsorted(self._bodies.first, -1 - made, side="right")) - 1
            raise SingularSystemError(
                f"robot {self.robot.name!r}: the bodies that joint"
                f" {self.robot.joint_names[body]!r} moves have no inertia along it; give them"
                " mass or the joint armature"
            )
        if made < count or not finite:
            when = state.time + max(made, 0) * self.dt
            raise StateError(
                f"robot {self.robot.name!r}: the simulation is no longer finite at"
                f" t = {when:.6g} s; shorten dt = {self.dt:g} s or soften the drives"
            )
        K = 3 * len(self.points)
        time = state.time + count * self.dt
        return SimulationState(q, v, time, kept[:K].reshape(-1, 3), kept[K:])

    # ---- one step by another route to the contact-space inertia --------------------------

    def _contact_inertia(self, added: bytes) -> ContactInertia:
        """Contact spaces of the robot with ``added`` inertia (nv,) at its freedoms."""
        more = np.frombuffer(added)
        robot = self.robot
        if more.any():
            robot = robot.with_armature(robot.armature + more)
        return ContactInertia(flat_robot(robot), self.route)

    def _by_route(
        self,
        q: Array,
        v: Array,
        kept: Array,
        time: float,
        inputs: tuple[Array, Array, Array],
        log: Log,
        row: int,
    ) -> int:
        """What ``advance_steps`` does in one step, the inertia by ``self.route``."""
        torque, added, external = inputs
        model, store, bodies, motion = self._model, self._store, self._bodies, self._motion
        setup, K, nv = self._setup, len(self.points), self.robot.nv
        step = compiled.Step(
            *(q, v, kept, np.empty_like(q), np.empty(nv), np.empty(nv)),
            *(np.empty((len(bodies.parent), 6)), np.empty((K, 3)), np.empty(K), np.empty(K)),
            np.zeros(compiled.SCALARS),
        )
        totals = compiled.begin(model, store, bodies, motion, setup, step)
        rows = compiled.gather_rows(bodies, motion, setup, step)
        near = rows.place[::3] // 3
        damped = added + 0.5 * self.dt * setup.damping
        space = self._inertia(damped.tobytes()).at(
            step.q_mid, rows.J, rows.tip[::3, 0].copy(), step.positions[near]
        )
        A, x, free = space.A.copy(), kept[rows.place], np.empty(nv)
        soften(A)
        for _ in range(2 if self.integrator == "midpoint" else 1):
            compiled.free_impulse(bodies, motion, setup, step, torque, external, free)
            without = v + space.respond(free)
            compiled.settle(setup, rows, A, without, x, step)
            step.change[:] = without - v + space.respond(rows.J.T @ x)
        compiled.finish(
            *(model, store, bodies, motion, setup, step, rows, x),
            *(torque, added, external, totals),
        )
        if compiled.push_out(motion, setup, step, rows, A, x):
            compiled.shift(model, step, space.respond(rows.J.T @ x))
        step.scalars[compiled.TIME] = time
        qdd = step.change / self.dt
        values = (step.scalars, step.q_mid, step.v_mid, qdd, torque - added * qdd, kept)
        for array, value in zip(log, (*values, step.wrench), strict=True):
            array[row] = value
        return 1


@final
class Drives:
    """Gains ``kp`` (Nm/rad), ``kd`` (Nms/rad) at all one-freedom and spherical joints.

    One number for all, (nv,) numbers, or numbers by the name of the joint, 0 for the others.
    """

    def __init__(
        self,
        robot: KinematicTree,
        kp: float | ArrayLike | Mapping[str, float],
        kd: float | ArrayLike | Mapping[str, float],
    ) -> None:
        q0 = np.array([q.start for q in robot.q_slices()], dtype=np.intp)
        v0 = np.array([v.start for v in robot.v_slices()], dtype=np.intp)
        screw = [isinstance(joint, (Revolute, Prismatic, Helical)) for joint in robot.joints]
        ball = [isinstance(joint, Spherical) for joint in robot.joints]
        self._screw_q, self._screw_v = q0[screw], v0[screw]
        self._ball_q = q0[ball][:, None] + np.arange(4)
        self._ball_v = v0[ball][:, None] + np.arange(3)
        self.driven = np.zeros(robot.nv, dtype=bool)
        self.driven[self._screw_v] = True
        self.driven[self._ball_v] = True
        self.kp, self.kd = self._gains(robot, "kp", kp), self._gains(robot, "kd", kd)

    def _gains(
        self, robot: KinematicTree, what: str, gain: float | ArrayLike | Mapping[str, float]
    ) -> Array:
        values = np.zeros(robot.nv)
        if isinstance(gain, Mapping):
            for joint, value in gain.items():
                place = robot.v_slice(joint)
                if not self.driven[place].all() or place.start == place.stop:
                    raise ModelError(
                        f"joint {joint!r} cannot have a drive: it is"
                        f" {robot.joints[robot.joint_index(joint)].kind}"
                    )
                values[place] = value
        else:
            try:
                values[:] = float_array(gain)
            except (TypeError, ValueError) as error:
                raise ModelError(f"gains {what} must be numbers: {error}") from None
        if not (values >= 0).all() or not np.isfinite(values).all():
            raise ModelError(f"gains must be >= 0, got {what} = {gain!r}")
        return np.where(self.driven, values, 0.0)

    def inertia(self, dt: float) -> Array:
        """What the drives add to the inertia of each freedom (nv,) over a step dt."""
        return np.asarray(self.kd * dt + self.kp * dt * dt)

    def torque(self, q: Array, qd: Array, target: Array, dt: float) -> Array:
        """Torque (nv,) at the start of a step; the rest is :meth:`inertia` times qdd."""
        return np.asarray(self.kp * self.error(q, target) - (self.kd + self.kp * dt) * qd)

    def error(self, q: Array, target: Array) -> Array:
        """Velocity (nv,) that takes the driven joints from q to target in unit time."""
        out = np.zeros(len(self.driven))
        out[self._screw_v] = target[self._screw_q] - q[self._screw_q]
        a, b = q[self._ball_q], target[self._ball_q]
        xyz = a[:, 3:] * b[:, :3] - b[:, 3:] * a[:, :3] - np.cross(a[:, :3], b[:, :3])
        w = np.sum(a * b, axis=1)
        size = np.linalg.norm(xyz, axis=1)
        angle = 2 * np.arctan2(size, np.abs(w)) * np.where(w < 0, -1.0, 1.0)
        out[self._ball_v] = xyz * (angle / np.maximum(size, 1e-300))[:, None]
        return out
