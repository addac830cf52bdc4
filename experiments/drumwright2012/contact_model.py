"""The contact model that [DRUM] simulates with, beside Coulomb's law by projected Gauss-Seidel.

[DRUM] section 6.3 resolves contacts by its reference 10 (Drumwright and Shell, WAFR 2010), the
principle of maximum dissipation: of all impulses that friction cones allow and that let no
contact approach, those that leave the least kinetic energy,

    min x^T A x / 2 + b^T x     x_n >= 0,  |x_t| <= mu x_n,  u_n >= 0,  sum u_n <= kappa

with u = A x + b, A = J M^-1 J^T, and kappa the sum of u_n after the best impulses without
friction, so that nothing is pushed off for the sake of friction. That paper is not among ours:
the program is the one its author's simulator solves (Moby, ``ImpactConstraintHandlerNQP``). It
is convex and has no complementarity. Impulses that stop every contact leave the least energy of
all: where the cones allow them they are the answer, by one Cholesky factorisation of A. Else an
interior-point method (clarabel) solves both phases.

Coulomb's law asks for x_n u_n = 0 and friction against the slip instead. Where all contacts
stick both give u = 0. Where some slide they differ: the least energy is not left by friction
that opposes the slip, unless A treats all directions alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias, final

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.sparse import csc_matrix, triu

import dynsys
from dynsys.loops.flat import flat_robot
from dynsys.loops.tree_state import integrate
from dynsys.model import synthetic
from dynsys.model.tree import KinematicTree
from dynsys.simulation import ROUTES, ContactInertia, Drives, Ground, Route, solve_contacts
from dynsys.simulation.impulses import soften
from dynsys.types import Array
from experiments.drumwright2012.centipedes import (
    KD,
    KP,
    PAPER_STEP,
    Gait,
    contacts_of,
    standing,
)
from experiments.peers.timing import seconds

__all__ = [
    "DISSIPATION",
    "MODELS",
    "SWEEPS",
    "Compared",
    "Parts",
    "Problem",
    "Stepping",
    "Walked",
    "compare",
    "maximum_dissipation",
    "step_parts",
    "stopped",
    "walked",
]

FRICTION = Ground().friction
INTERIOR = 1e-9
"""By how much of the largest speed kappa is widened: an interior must not be empty."""
STOPPED = 1e-9
"""Of the largest speed: what is left of it where all contacts stop."""
MARGIN = 1e-3
"""Feet nearer to the plane than this (m) are contacts."""
Model: TypeAlias = Callable[[Array, Array, float], Array]


def maximum_dissipation(A: Array, b: Array, friction: float) -> Array:
    """Impulses x (3 c,) of the module's program; rows in threes, normal first.

    Numbers are made dimensionless: speeds by the largest of b, inertias by that of A.
    """
    inertia, speed = float(np.diagonal(A).max()), float(np.abs(b).max())
    if not len(b) or speed == 0:
        return np.zeros(len(b))
    A, b = A / inertia, b / speed
    if (stopping := _stopping(A, b, friction)) is not None:
        return stopping * (speed / inertia)
    c, normal = len(b) // 3, np.arange(0, len(b), 3)
    N = A[normal]
    no_friction = _minimum(A[np.ix_(normal, normal)], b[normal], -np.eye(c), np.zeros(c), [])
    kappa = float((N[:, normal] @ no_friction + b[normal]).sum()) + INTERIOR
    cones = np.zeros((len(b), len(b)))
    cones[np.arange(len(b)), np.arange(len(b))] = np.tile([-friction, -1.0, -1.0], c)
    left = np.vstack([-N, N.sum(axis=0), cones])
    right = np.concatenate([b[normal], [kappa - b[normal].sum()], np.zeros(len(b))])
    return _minimum(A, b, left, right, [3] * c) * (speed / inertia)


def _stopping(A: Array, b: Array, friction: float) -> Array | None:
    """Impulses with A x + b = 0 that lie in all cones, or None."""
    yielding = A.copy()
    soften(yielding)
    try:
        x = cho_solve(cho_factor(yielding, lower=True, overwrite_a=True), -b)
    except LinAlgError:
        return None
    inside = np.hypot(x[1::3], x[2::3]) <= friction * x[::3]
    return x if inside.all() and np.abs(A @ x + b).max() < STOPPED else None


def _minimum(P: Array, q: Array, left: Array, right: Array, cones: list[int]) -> Array:
    """Minimum of x^T P x / 2 + q^T x with right - left x >= 0, its last rows in cones."""
    import clarabel  # a shared library: loaded where it is needed

    first = len(right) - sum(cones)
    kinds = [clarabel.NonnegativeConeT(first), *(clarabel.SecondOrderConeT(k) for k in cones)]
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-11
    upper: Any = csc_matrix(triu(P))
    solver = clarabel.DefaultSolver(upper, q, csc_matrix(left), right, kinds, settings)
    return np.asarray(solver.solve().x)


def gauss_seidel(A: Array, b: Array, friction: float) -> Array:
    """Coulomb's law by sweeps, to 1e-9 of the largest speed."""
    tolerance = 1e-9 * float(np.abs(b).max(initial=0.0)) + 1e-15
    found = solve_contacts(
        A, b, friction, sweeps=100_000, tolerance=tolerance, solver="gauss_seidel"
    )
    return found.x


def newton(A: Array, b: Array, friction: float) -> Array:
    """Coulomb's law by Newton's method, as the simulator has it."""
    tolerance = 1e-9 * float(np.abs(b).max(initial=0.0)) + 1e-15
    return solve_contacts(A, b, friction, tolerance=tolerance).x


DISSIPATION, SWEEPS, NEWTON = "maximum dissipation", "Gauss-Seidel", "Newton"
MODELS: dict[str, Model] = {
    DISSIPATION: maximum_dissipation,
    SWEEPS: gauss_seidel,
    NEWTON: newton,
}


# ---- the same contacts by each model -------------------------------------------------------


class Problem(NamedTuple):
    """Contacts near the plane: A (3 c, 3 c), J (3 c, nv), gaps (c,), and M^-1 as a function."""

    A: Array
    J: Array
    gap: Array
    respond: Callable[[Array], Array]

    @staticmethod
    def of(
        robot: KinematicTree, q: Array, near: float = MARGIN, route: Route = "drumwright"
    ) -> Problem:
        """All feet of a centipede that are ``near`` (m) the plane z = 0."""
        contacts = contacts_of(robot, q, near)
        space = ContactInertia(flat_robot(robot), route).at(q, *contacts)
        return Problem(space.A, contacts.J, contacts.positions[:, 2], space.respond)


@final
class Compared(NamedTuple):
    """Means or extremes over many problems, by the name of the model.

    ``energy``, ``most`` : kinetic energy that is left, over that left by Gauss-Seidel, mean and
        largest.
    ``beside`` : angle (degrees) between friction and the opposite of the slip, mean of sliding
        contacts.
    ``slip`` : largest speed by which the model's u differs from Gauss-Seidel's, m/s.
    ``approach`` : largest speed at which a contact still approaches, m/s.
    ``seconds`` : per problem.
    """

    energy: dict[str, float]
    most: dict[str, float]
    beside: dict[str, float]
    slip: dict[str, float]
    approach: dict[str, float]
    seconds: dict[str, float]


@cache
def compare(segments: int, count: int, speed: float) -> Compared:
    """Centipedes that hit the plane with all feet, ``count`` random postures and velocities.

    ``speed`` (m/s): of the body along the plane; 0 for feet that stick.
    """
    robot, rng = synthetic.centipede(segments), np.random.default_rng(segments)
    sums: dict[str, list[tuple[float, ...]]] = {name: [] for name in MODELS}
    for _ in range(count):
        bent = 0.4 * rng.normal(size=robot.nv)
        bent[:6] = 0.0
        q = robot.integrate(standing(robot), bent, 1.0)
        problem, H = Problem.of(robot, q, near=np.inf), dynsys.crba(robot, q)
        v = 0.02 * rng.normal(size=robot.nv)
        v[3:6] += [*(speed * rng.normal(size=2)), -0.3]
        b = problem.J @ v
        answers = {}
        for name, model in MODELS.items():
            start = time.process_time()
            answers[name] = model(problem.A, b, FRICTION)
            taken = time.process_time() - start
            u = (problem.A @ answers[name] + b).reshape(-1, 3)
            after = v + problem.respond(problem.J.T @ answers[name])
            energy = 0.5 * float(after @ H @ after)
            angle = _beside(answers[name].reshape(-1, 3), u)
            sums[name].append((energy, angle, float(-u[:, 0].min()), taken, *u.ravel()))
    found = {name: np.array(values) for name, values in sums.items()}
    reference = found[SWEEPS]
    return Compared(
        {name: float(np.mean(x[:, 0] / reference[:, 0])) for name, x in found.items()},
        {name: float(np.max(x[:, 0] / reference[:, 0])) for name, x in found.items()},
        {name: _mean(x[:, 1]) for name, x in found.items()},
        {name: float(np.abs(x - reference)[:, 4:].max()) for name, x in found.items()},
        {name: float(x[:, 2].max()) for name, x in found.items()},
        {name: float(np.median(x[:, 3])) for name, x in found.items()},
    )


def _mean(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else 0.0


def _beside(x: Array, u: Array) -> float:
    """Mean angle (degrees) of friction off the slip's opposite; NaN where nothing slides."""
    slip, friction = np.linalg.norm(u[:, 1:], axis=1), np.linalg.norm(x[:, 1:], axis=1)
    slides = (slip > 1e-4) & (friction > 1e-9)
    if not slides.any():
        return float("nan")
    cosine = -np.sum(x[slides, 1:] * u[slides, 1:], axis=1) / (slip * friction)[slides]
    return float(np.degrees(np.arccos(np.clip(cosine, -1.0, 1.0))).mean())


# ---- steps of a walk by each model ---------------------------------------------------------


@final
class Stepping:
    """A centipede on the gait's drives, impulses by one model, A by one route.

    A gap g is open to the end of a step, u_n >= -g / dt. ``explicit``, as [DRUM] has it:
    positions move with the velocity before the step, else with the one after it.
    """

    def __init__(
        self,
        segments: int,
        dt: float,
        model: str,
        route: Route = "drumwright",
        explicit: bool = False,
    ) -> None:
        self.robot, self.dt = synthetic.centipede(segments), dt
        self.route, self.explicit = route, explicit
        self._drives, self._gait = Drives(self.robot, KP, KD), Gait(self.robot)
        self._solve = MODELS[model]
        added = self._drives.inertia(dt)  # drives are implicit
        self._stiff = self.robot.with_armature(self.robot.armature + added)

    def start(self) -> tuple[Array, Array]:
        """Position and velocity at rest, all feet on the plane."""
        return standing(self.robot), np.zeros(self.robot.nv)

    def problem(self, q: Array, v: Array, time: float) -> tuple[Problem, Array, Array]:
        """Contacts at q, the velocity (nv,) without them, and what b it gives them."""
        torque = self._drives.torque(q, v, self._gait(time + self.dt), self.dt)
        bias = dynsys.rnea(self.robot, q, v, np.zeros(self.robot.nv))
        problem = Problem.of(self._stiff, q, route=self.route)
        free = v + problem.respond(self.dt * (torque - bias))
        b = problem.J @ free
        b[::3] += problem.gap / self.dt
        return problem, free, b

    def impulses(self, problem: Problem, b: Array) -> Array:
        """Impulses (3 c,) by the model."""
        return self._solve(problem.A, b, FRICTION)

    def moved(
        self, q: Array, v: Array, free: Array, problem: Problem, x: Array
    ) -> tuple[Array, Array]:
        """Position and velocity after a step with impulses x."""
        after = free + problem.respond(problem.J.T @ x)
        return integrate(self.robot, q, v if self.explicit else after, self.dt), after

    def step(self, q: Array, v: Array, time: float) -> tuple[Array, Array]:
        """Position and velocity after a step."""
        problem, free, b = self.problem(q, v, time)
        return self.moved(q, v, free, problem, self.impulses(problem, b))

    def inertia(self, q: Array) -> Callable[[], object]:
        """J M^-1 J^T of a step at q, as a call."""
        space = ContactInertia(flat_robot(self._stiff), self.route)
        return partial(space.at, q, *contacts_of(self._stiff, q, MARGIN))


@final
class Parts(NamedTuple):
    """CPU seconds of a step, and of J M^-1 J^T in it, by route; of the impulses, by any."""

    step: dict[Route, float]
    inertia: dict[Route, float]
    impulses: float


@cache
def step_parts(segments: int, passes: int) -> Parts:
    """[DRUM]'s simulation, explicit Euler and maximum dissipation: one step of it, timed.

    After three steps from standing; all routes in turn, in every pass.
    """
    steppings = {
        route: Stepping(segments, PAPER_STEP, DISSIPATION, route, explicit=True)
        for route in ROUTES
    }
    one = steppings["drumwright"]
    (q, v), time = one.start(), 0.0
    for _ in range(3):
        (q, v), time = one.step(q, v, time), time + PAPER_STEP
    problem, _, b = one.problem(q, v, time)
    runs: dict[str, Callable[[], object]] = {"impulses": partial(one.impulses, problem, b)}
    for route, stepping in steppings.items():
        runs[f"step, {route}"] = partial(stepping.step, q, v, time)
        runs[f"inertia, {route}"] = stepping.inertia(q)
    taken = seconds(runs, passes)
    return Parts(
        {route: taken[f"step, {route}"] for route in ROUTES},
        {route: taken[f"inertia, {route}"] for route in ROUTES},
        taken["impulses"],
    )


def stopped(segments: int, steps: int) -> int:
    """Steps of [DRUM]'s simulation, from standing, after which no contact moves."""
    stepping = Stepping(segments, PAPER_STEP, DISSIPATION, explicit=True)
    (q, v), count = stepping.start(), 0
    for k in range(steps):
        problem, free, b = stepping.problem(q, v, k * PAPER_STEP)
        x = stepping.impulses(problem, b)
        count += bool(np.abs(problem.A @ x + b).max() <= STOPPED * np.abs(b).max())
        q, v = stepping.moved(q, v, free, problem, x)
    return count


@final
class Walked(NamedTuple):
    """Way (m) of the head along x, deepest foot (m), CPU seconds of the model per step."""

    way: float
    depth: float
    seconds: float


@cache
def walked(segments: int, model: str, duration: float, dt: float = 1e-3) -> Walked:
    """A walk on the gait's drives by Euler's semi-implicit rule, A by [DRUM]."""
    walker = Stepping(segments, dt, model)
    q, v = walker.start()
    start, deepest, taken = q[0], 0.0, 0.0
    steps = round(duration / dt)
    for k in range(steps):
        problem, free, b = walker.problem(q, v, k * dt)
        begun = time.process_time()
        x = walker.impulses(problem, b)
        taken += time.process_time() - begun
        q, v = walker.moved(q, v, free, problem, x)
        deepest = max(deepest, -float(problem.gap.min(initial=0.0)))
    return Walked(float(q[0] - start), deepest, taken / steps)
