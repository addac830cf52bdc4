"""Programs of the dynamics of one robot: recorded, simplified, counted.

The symmetric elimination (:mod:`.symmetric`) runs on expression-graph scalars, on the robot
with its frames re-chosen and masses regrouped (:mod:`dynsys.program.frames`); what it leaves is
simplified, and guarded where a pivot is not safe by argument.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import final

import numpy as np
from numpy.typing import NDArray

from dynsys.model.natural import NaturalUnits, unusual
from dynsys.model.spatial import MassMoments, cross_force, cross_motion
from dynsys.model.tree import KinematicTree
from dynsys.model.varying import at_parameters, parameter_samples, parameter_units
from dynsys.plan.derivatives import (
    FACTORED,
    Way,
    derivative_outputs,
    derivative_results,
    factored_size,
    ways_to_record,
)
from dynsys.plan.held.holding import Holding
from dynsys.plan.held.multipliers import LIMIT, HeldBy
from dynsys.plan.operations import program_operations
from dynsys.plan.pivots import pivot_safety
from dynsys.plan.products import PRODUCTS, VECTORS, product_results
from dynsys.plan.step_order import staged_steps
from dynsys.plan.symmetric import HeldRows, SymmetricStep, solve_symmetric, symmetric_steps
from dynsys.program.frames import Reframed, Regrouping, reframe
from dynsys.program.graph import Graph
from dynsys.program.guards import guarded
from dynsys.program.paired import PAIRED, paired_size
from dynsys.program.program import Program
from dynsys.program.signature import Signature
from dynsys.program.simplify import simplify
from dynsys.recursive.kinematics import transforms, velocities
from dynsys.recursive.rnea import net_wrenches
from dynsys.types import Array, BoolArray, ScalarArray

__all__ = [
    "CONSTRAINT_WRENCH",
    "DYNAMICS_OUTPUTS",
    "PARAMETERS",
    "SAMPLES",
    "DynamicsSpec",
    "body_quantities",
    "cheapest_accurate",
    "dynamics_program",
    "guarded_dynamics",
    "sample_states",
    "symmetric_dynamics",
    "watched_dynamics",
]

SAMPLES = 12
ACCURATE = 1e-13
"""Relative error at random states that no well-conditioned elimination exceeds."""
NO_WORSE = 2.0
"""Errors of two programs at a dozen states that far apart are the same."""
PIVOT_MARGIN = 1e10
"""A watched pivot may fall this far below its median before pivoting takes over."""
PARAMETERS = "parameters"
"""Name of the input that holds parameters of the robot."""
DYNAMICS_OUTPUTS = ("torque", "qdd", "acceleration", "joint_wrench")
CONSTRAINT_WRENCH = "constraint_wrench"
"""Name of the output that holds the forces of constraints."""
SLOW = 2.0**-40
"""Speeds (rad/s, m/s) at which dry friction fades that does so above 1e-20."""


def sample_states(
    robot: KinematicTree, count: int, seed: int, extra: Array | Sequence[float] = ()
) -> NDArray[np.longdouble]:
    """Random inputs (count, nq + nv + extra): q with unit quaternions, then normal numbers.

    They are about one in natural units of the robot, in which the further inputs have those of
    ``extra``: what is small beside them is rounding, of a robot of any size. Joint limits do
    not count: what they leave out is answered by the same code. Every other state is slow: dry
    friction is a sign at fast ones, which joints that happen to turn alike at all of them would
    share, and its fading at rest would be lost.
    """
    natural = NaturalUnits(robot)
    rng = np.random.default_rng(seed)
    states = [robot.random_configuration(rng, limited=False) for _ in range(count)]
    q = np.array(states, dtype=np.longdouble)
    for where in robot.quaternion_slices:
        q[:, where] /= np.sqrt((q[:, where] ** 2).sum(axis=1, keepdims=True))
    rest = rng.normal(size=(count, robot.nv + len(extra))).astype(np.longdouble)
    rest[1::2, : robot.nv] *= SLOW
    units = np.concatenate([natural.positions, natural.motion, extra])
    return np.hstack([q, rest]) * unusual(units)


@final
@dataclass(frozen=True, eq=False)
class DynamicsSpec:
    """What is asked of the dynamics of a robot.

    Parameters
    ----------
    known : (nv,) freedoms whose qdd is given; of the others the torque is.
    given : name of the input vector (nv,) that holds them.
    outputs : any of :data:`DYNAMICS_OUTPUTS`, of ``derivatives`` and of :data:`PRODUCTS`, in
        the order wanted; what products multiply with are further inputs behind all others.
    wrenches : external wrenches (n_bodies, 6) are a further input, else they are zero.
    steps : the order of elimination, executed as it stands; by default leaf to root.
    parameters : of the robot, by name, whose values are the last input before those.
    held : constraints that hold; ``constraint_wrench`` are then outputs, one per row.
    steered : gains (stiffness, damping) of each constraint and target accelerations of the rows
        are further inputs: J qdd + Jdot qd = target - stiffness error - damping velocity.
    """

    robot: KinematicTree
    known: BoolArray
    given: str
    outputs: tuple[str, ...]
    wrenches: bool = False
    steps: Sequence[SymmetricStep] | None = None
    parameters: tuple[str, ...] = ()
    held: HeldBy | None = None
    steered: bool = False

    @property
    def signature(self) -> Signature:
        """Inputs and outputs by name."""
        inputs = {"q": self.robot.nq} | self._variables | self.vectors
        sizes = self.derivatives | dict.fromkeys(("torque", "qdd", "jvp"), self.robot.nv)
        sizes |= dict.fromkeys(("vjp", "hvp"), sum(self.variables.values()))
        sizes |= {FACTORED: factored_size(self.robot)} if FACTORED in self.outputs else {}
        sizes[PAIRED] = paired_size(self.robot.nv, self.wrenches)
        sizes[CONSTRAINT_WRENCH] = self.n_rows
        size = {name: sizes.get(name, 6 * self.robot.n_bodies) for name in self.outputs}
        return Signature(tuple(inputs.items()), tuple((x, size[x]) for x in self.outputs))

    @property
    def _variables(self) -> dict[str, int]:
        """Inputs but q, with their sizes."""
        found = {"qd": self.robot.nv, self.given: self.robot.nv}
        found |= {"f_ext": 6 * self.robot.n_bodies} if self.wrenches else {}
        if self.steered and self.held is not None:
            found |= {"gains": 2 * len(self.held.constraints), "target": self.n_rows}
        return found | ({PARAMETERS: len(self.parameters)} if self.parameters else {})

    @property
    def variables(self) -> dict[str, int]:
        """What derivatives are by, with sizes: inputs, q by its tangent (nv,)."""
        return {"q": self.robot.nv} | self._variables

    @property
    def vectors(self) -> dict[str, int]:
        """What products multiply with: weight (nv,) and direction of all variables."""
        sizes = {"weight": self.robot.nv, "direction": sum(self.variables.values())}
        needed = {name for output in self.outputs for name in PRODUCTS.get(output, ())}
        return {name: sizes[name] for name in VECTORS if name in needed}

    @property
    def n_rows(self) -> int:
        """Number of rows that constraints hold."""
        return 0 if self.held is None else sum(c.size for c in self.held.constraints)

    @property
    def derivatives(self) -> dict[str, int]:
        """Names of all derivatives that could be outputs, with their sizes."""
        if self.held is not None:
            return {}
        return derivative_outputs(self.robot.nv, self.variables, self.given)

    @property
    def rows_in_order(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Rows of constraints that are pivots, in their order, and redundant ones."""
        if self.held is None:
            return (), ()
        steps = self.held.steps if self.steps is None else self.steps
        return self.held.split(steps)[1:]

    def samples(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs)."""
        units = [self.units(name) for name, _ in self.signature.inputs[2:]]
        states = sample_states(self.robot, count, seed, np.concatenate(units))
        if self.parameters:
            end = self.signature.n_inputs - sum(self.vectors.values())
            values = parameter_samples(self.robot, self.parameters, count, seed)
            states[:, end - len(self.parameters) : end] = values
        return states

    def units(self, name: str) -> Array:
        """Natural units of one input."""
        natural = NaturalUnits(self.robot)
        if name == self.given:
            return np.where(self.known, natural.motion, natural.drive)
        if name == "weight":
            return 1.0 / np.where(self.known, natural.drive, natural.motion)
        if name == "direction":
            moved = [self.units(name) for name in self._variables]
            return np.concatenate([natural.motion, *moved])
        if name == "qd":
            return natural.motion
        if name == "f_ext":
            return np.tile(natural.wrench, self.robot.n_bodies)
        if name == "target" and self.held is not None:
            return np.concatenate([natural.rows(one) for one in self.held.constraints])
        if name == PARAMETERS:
            return parameter_units(self.robot, self.parameters)
        return np.ones(self._variables[name])  # gains, per second

    def admissible(self, count: int, seed: int) -> NDArray[np.longdouble]:
        """Random inputs (count, n_inputs) at which constraints hold, as far as that is found.

        Velocities are such that they keep on holding, targets zero where rows are redundant.
        """
        states = self.samples(count, seed)
        if self.held is None:
            return states
        nq, nv = self.robot.nq, self.robot.nv
        states[:, : nq + nv] = self.held.moving(states[:, : nq + nv].astype(np.float64), seed)
        if self.steered and self.held.redundant:
            place = self.signature.n_inputs - len(self.parameters)  # no products with these
            states[:, place - self.n_rows : place] = 0.0
        return states


def guarded_dynamics(spec: DynamicsSpec, dtype: str = "float64") -> Program:
    """Dynamics program that answers NaN to bad quaternions and to vanishing pivots.

    Raises
    ------
    SingularSystemError
        if some joint moves no inertia at any state, naming it.
    """
    program, limits = watched_dynamics(spec)
    n_finite, n_checks = spec.signature.n_inputs, len(spec.rows_in_order[1])
    quaternions = spec.robot.quaternion_slices
    return guarded(program, quaternions, dtype, limits, n_finite=n_finite, n_checks=n_checks)


def watched_dynamics(spec: DynamicsSpec) -> tuple[Program, list[float]]:
    """Dynamics program with reciprocals of pivots behind its outputs, and their limits.

    The pivots are those that are safe by sampling only, the rows of constraints among them;
    what redundant rows contradict, and its size, comes last. Errors as of
    :func:`guarded_dynamics`.
    """
    pivots = pivot_safety(spec.robot, spec.known)
    watch = tuple(pivot.joint for pivot in pivots if pivot.safe_by == "sampling")
    program = dynamics_program(spec, watch)
    kept, redundant = spec.rows_in_order
    end = len(program.outputs) - len(kept) - 2 * len(redundant)
    reciprocals = np.abs(
        program.evaluate(spec.samples(20, 3))[:, spec.signature.n_outputs : end]
    )
    limits = [float(PIVOT_MARGIN * x) for x in np.median(reciprocals, axis=0)]
    return program, [*limits, *[LIMIT] * len(kept)]


def dynamics_program(spec: DynamicsSpec, watch: tuple[str, ...] = ()) -> Program:
    """Program of the symmetric elimination of D; reciprocal pivots of ``watch`` joints follow.

    Masses are regrouped where that costs no digits, see :func:`cheapest_accurate`; derivatives
    of small robots are recorded in all ways (:func:`~dynsys.plan.derivatives.ways_to_record`),
    and the one with the fewest operations is kept.
    """
    samples = spec.samples(SAMPLES, 0)

    def record(regroup: Regrouping, way: Way = "recursion") -> Program:
        return _recorded_dynamics(spec, watch, regroup, samples, way)

    if set(spec.outputs) <= set(spec.derivatives):
        ways = ways_to_record(spec.robot, spec.known)
        if len(ways) > 1:
            made = [record("all", way) for way in ways]
            return min(made, key=lambda program: program_operations(program).total)
    if spec.known.all():
        return record("all")
    error = partial(_rounding_error, states=samples.astype(np.float64))
    return cheapest_accurate(record, error, ACCURATE)


def cheapest_accurate(
    record: Callable[[Regrouping], Program], error: Callable[[Program], float], enough: float
) -> Program:
    """Program on regrouped masses, as many as rounding allows.

    All of them cost least. Where that leaves an error above ``enough``, a pivot cancels almost
    all of some link's inertia; then only solid links are regrouped, and none if even so the
    error is larger than with every mass in its place.
    """
    program = record("all")
    if error(program) <= enough:
        return program
    solid, in_place = record("solid"), record("none")
    return solid if error(solid) <= max(enough, NO_WORSE * error(in_place)) else in_place


def _rounding_error(program: Program, states: Array) -> float:
    """Largest error of double precision, relative to the largest output of its state."""
    exact = program.evaluate(states.astype(np.longdouble))
    scale = np.abs(exact).max(axis=1)
    errors = np.abs(program.evaluate(states) - exact).max(axis=1)
    return float(np.max(errors / np.maximum(scale, np.finfo(float).tiny)))


def _recorded_dynamics(
    spec: DynamicsSpec,
    watch: tuple[str, ...],
    regroup: Regrouping,
    samples: NDArray[np.longdouble],
    way: Way,
) -> Program:
    robot, graph = spec.robot, Graph()
    q, qd, inputs = graph.inputs(robot.nq), graph.inputs(robot.nv), graph.inputs(robot.nv)
    f_ext = graph.inputs(6 * robot.n_bodies).reshape(-1, 6) if spec.wrenches else None
    n_gains = 2 * len(spec.held.constraints) if spec.steered and spec.held else 0
    gains, target = graph.inputs(n_gains), graph.inputs(spec.n_rows if n_gains else 0)
    p = graph.inputs(len(spec.parameters))

    def mechanism_at(p: ScalarArray) -> Reframed:
        at = at_parameters(robot, spec.parameters, p) if len(p) else None
        return reframe(robot, regroup=regroup, at_values=at)

    mechanism = mechanism_at(p)
    holding = (
        None
        if spec.held is None
        else Holding(spec.held, spec.rows_in_order, mechanism, (q, qd), (gains, target))
    )
    qdd, torque, reciprocals = symmetric_dynamics(
        mechanism, q, qd, inputs, spec.known, f_ext, spec.steps, holding
    )
    results: dict[str, ScalarArray] = {"qdd": qdd, "torque": torque}
    given = {"q": q, "qd": qd, spec.given: inputs, PARAMETERS: p}
    given |= {} if f_ext is None else {"f_ext": f_ext.ravel()}
    if holding is not None and spec.held is not None:
        results[CONSTRAINT_WRENCH] = holding.forces
        if spec.held.is_inverse:  # else whoever knows an acceleration drives it
            torque[spec.held.undriven] = 0.0
        if f_ext is not None or not set(spec.outputs) <= set(results):
            f_ext = holding.added_to(f_ext)
    if any(name in (FACTORED, PAIRED, *spec.derivatives) for name in spec.outputs):
        results |= derivative_results(
            mechanism_at, given, qdd, spec.known, spec.given, spec.outputs, way
        )
    given |= {name: graph.inputs(size) for name, size in spec.vectors.items()}
    if spec.vectors:
        results |= product_results(
            mechanism_at, given, qdd, spec.known, spec.steps, spec.outputs
        )
    if not set(spec.outputs) <= set(results):
        moments = mechanism.at.moments if mechanism.at else {}
        results |= body_quantities(robot, q, qd, qdd, f_ext, moments)
    answers = [x for name in spec.outputs for x in np.ravel(results[name])]
    watched = [x for joint in watch for x in reciprocals[robot.v_slice(joint).start]]
    watched += [] if holding is None else holding.watched
    return simplify(graph.program([*answers, *watched]), samples)


def symmetric_dynamics(
    mechanism: Reframed,
    q: ScalarArray,
    qd: ScalarArray,
    inputs: ScalarArray,
    known: BoolArray,
    f_ext: ScalarArray | None = None,
    steps: Sequence[SymmetricStep] | None = None,
    holding: Holding | None = None,
) -> tuple[ScalarArray, ScalarArray, dict[int, ScalarArray]]:
    """qdd, torque (nv,) and reciprocal pivots; ``f_ext`` in the robot's own frames.

    ``steps`` are those of the robot's bodies, by default leaf to root; behind them those of the
    constraints that are ``holding``.
    """
    X_up = transforms(mechanism, q)
    imposed = inputs.copy()
    imposed[~known] = 0
    friction = mechanism.friction_torque(qd)
    net = inputs.copy()
    net[~known] = inputs[~known] - friction[~known]
    bias = net_wrenches(mechanism, X_up, qd, imposed)
    if f_ext is not None:
        for body, place in enumerate(mechanism.place):
            bias[place] = bias[place] - mechanism.wrench_to_new(body, f_ext[body])
    steps = symmetric_steps(mechanism.robot, known) if steps is None else steps
    rows: list[HeldRows] = []
    if holding is not None:
        steps, rows = holding.tree(steps), holding.rows(X_up, imposed)
    solve = None if holding is None else holding.solve
    staged = staged_steps(mechanism, steps)
    system = (mechanism, X_up, bias, net, known, staged)
    qdd, torque, reciprocals = solve_symmetric(*system, rows, solve)
    torque[known], torque[~known] = torque[known] + friction[known], inputs[~known]
    return qdd, torque, reciprocals


def body_quantities(
    robot: KinematicTree,
    q: ScalarArray,
    qd: ScalarArray,
    qdd: ScalarArray,
    f_ext: ScalarArray | None,
    moments: Mapping[int, MassMoments] = MappingProxyType({}),
) -> dict[str, ScalarArray]:
    """Accelerations and joint wrenches (n_bodies, 6) of the robot's own frames, from qdd.

    ``moments`` stand in place of those of some bodies.

    The laws of :mod:`dynsys.system.laws`, solved one after the other: with qdd known the rows
    of accelerations are triangular from the root, those of balance from the leaves.
    """
    X_up = transforms(robot, q)
    v = velocities(robot, X_up, qd)
    a: list[ScalarArray] = []
    f: list[ScalarArray] = []
    gravity = np.concatenate([np.zeros(3), -robot.gravity])
    for i, (X, parent, freedoms) in enumerate(
        zip(X_up, robot.parent, robot.v_slices(), strict=True)
    ):
        S, M = robot.motion_subspace[i], moments.get(i, robot.moments[i]).matrix()
        # a_i = X_i a_parent + S_i qdd_i + v_i x S_i qd_i   [NORI] (3a), proper accelerations
        carried = X.motion(gravity if parent < 0 else a[parent])
        a.append(carried + S @ qdd[freedoms] + cross_motion(v[i], S @ qd[freedoms]))
        # f_i = I_i a_i + v_i x* I_i v_i - f^x_i + sum of children's   [NORI] (3f)
        f.append(M @ a[i] + cross_force(v[i], M @ v[i]) - (0 if f_ext is None else f_ext[i]))
    for i in reversed(range(robot.n_bodies)):
        if (parent := robot.parent[i]) >= 0:
            f[parent] = f[parent] + X_up[i].force_back(f[i])
    return {"acceleration": np.array(a), "joint_wrench": np.array(f)}
