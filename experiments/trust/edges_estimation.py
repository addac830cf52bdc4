"""Numerical edges of estimation: is the true error of every determined quantity covered?

How one edge is judged, and the edges: layouts, states and readings, by name.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import final

import numpy as np

import dynsys
import problems
import sensors
from dynsys.errors import DynsysError
from dynsys.model.joints import Revolute
from dynsys.model.spatial import Inertia, Transform
from dynsys.model.tree import Body, KinematicTree
from dynsys.types import Array
from experiments.trust.edges_cases import Verdict, edges
from experiments.trust.edges_oracle import exact_unknowns
from problems.estimation.estimate import Estimate
from problems.estimation.trust import EstimateTrust
from problems.measured.measured_system import QUANTITIES, Quantity
from problems.robots import read_robot
from sensors import published

__all__ = ["ESTIMATION_FAMILIES", "EstimationEdge", "judge_estimation_edge"]

ZERO = 1e-30


def judge_estimation_edge(family: str, edge: EstimationEdge) -> Verdict:
    """Estimate at an edge, and compare with 60 decimal digits."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            estimate = edge.problem.solve(edge.q, edge.qd, edge.y, active=edge.active)
            trust = estimate.trust()
        except DynsysError as error:
            text = f"{type(error).__name__}: {str(error)[:120]}"
            return Verdict(family, edge.name, "estimation", True, error=text)
    return _verdict(family, edge, estimate, trust)


def _verdict(
    family: str, edge: EstimationEdge, estimate: Estimate, trust: EstimateTrust
) -> Verdict:
    rows = edge.problem.measured.pack(edge.y, edge.active, None)
    exact = exact_unknowns(edge.problem, edge.q, edge.qd, rows)
    columns = edge.problem.system.unknowns.columns
    errors: dict[Quantity, Array] = {}
    scales: dict[Quantity, float] = {}
    covered = True
    for kind in QUANTITIES:
        found, truth = estimate.values[kind].array, exact[columns(kind)]
        known = np.isfinite(found)
        missed = [abs(float(t - f)) for f, t in zip(found[known], truth[known], strict=True)]
        errors[kind] = np.array(missed)
        scales[kind] = max((abs(float(t)) for t in truth[known]), default=0.0)
        bound = trust.error[kind][known]
        covered &= bool((errors[kind] <= bound).all())
        covered &= bool(np.isnan(trust.error[kind][~known]).all())
        covered &= bool((estimate.determined[kind].array == known).all())
    bounds: Mapping[Quantity, Array] = {
        kind: trust.error[kind][~np.isnan(trust.error[kind])] for kind in QUANTITIES
    }
    if not any(len(bounds[kind]) for kind in ("torque", "qdd")):
        return Verdict(family, edge.name, "estimation", covered, error="undetermined")
    return Verdict(
        family,
        edge.name,
        "estimation",
        covered,
        _relative(errors, scales),
        _relative(bounds, scales),
        float(np.max(trust.condition)),
    )


def _relative(errors: Mapping[Quantity, Array], scales: Mapping[Quantity, float]) -> float:
    """Largest error of torque and qdd, each relative to its largest entry unless all are 0."""
    relative = []
    for kind in ("torque", "qdd"):
        scale = scales[kind] if scales[kind] > ZERO else 1.0
        relative.append(float(np.max(errors[kind], initial=0.0)) / scale)
    return max(relative)


# ---- numerical edges of estimation: layouts, states and readings, by name ------------------

ANGLES = (0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 0.0)
RATIOS = (1e-6, 1e-4, 1e-2, 1e2, 1e4, 1e6)


@final
@dataclass(frozen=True, eq=False)
class EstimationEdge:
    """An estimation problem and q, qd and y at which it is asked."""

    name: str
    problem: problems.Estimation
    q: Array
    qd: Array
    y: Array
    active: Mapping[str, bool] = field(default_factory=dict)


def _readings(layout: sensors.Layout, seed: int = 0) -> Array:
    """Any readings; those that the layout states are as stated."""
    y = np.random.default_rng(seed).normal(size=layout.size)
    return np.where(np.isnan(layout.constants), y, layout.constants)


def _two_feet() -> KinematicTree:
    """Five links between two soles, parallel at q = 0 whatever the angle of the last joint."""
    x, y, z = np.eye(3)
    inertia = Inertia(1.5, np.array([0.02, -0.01, 0.1]), np.diag([0.02, 0.03, 0.01]))
    shift = Transform(np.eye(3), np.array([0.05, 0.02, 0.3]))
    axes = (x, y, x, y, z)
    bodies = [Body(f"link_{i}", i - 1, Revolute(a), shift, inertia) for i, a in enumerate(axes)]
    return KinematicTree("two_feet", bodies)


def _feet() -> Iterator[EstimationEdge]:
    """Load cells under feet that are parallel, or nearly so: torsion is seen by its sine."""
    robot = _two_feet()
    qd = np.random.default_rng(1).normal(size=robot.nv)
    for layout in (published.sie_friction, published.sie_friction_fy, published.sie):
        problem = problems.Estimation(robot, layout(robot))
        for angle in ANGLES:
            q = np.array([0.0, 0.0, angle, 0.0, 0.4])
            name = f"{layout.__name__}, feet at {angle:g} rad"
            yield EstimationEdge(name, problem, q, qd, _readings(problem.layout))


def _biped() -> Iterator[EstimationEdge]:
    """The catalogue's NAO, standing; the roll of one ankle turns a sole."""
    robot = read_robot("example:humanoid", floating_base=True).robot
    qd = 0.1 * np.random.default_rng(2).normal(size=robot.nv)
    for name in ("nao_slippery", "nao"):
        problem = problems.Estimation(robot, sensors.catalogue.load(name, robot))
        y = _readings(problem.layout)
        for angle in ANGLES[::3] if name == "nao" else ANGLES:
            q = robot.neutral()
            q[robot.q_slice("l_ankle_roll")] = angle
            yield EstimationEdge(f"{name}, feet at {angle:g} rad", problem, q, qd, y)
        if name == "nao_slippery":
            q = robot.random_configuration(3)
            for off in ("l_sole_slips", "r_sole_slips"):
                case = f"{name}, without {off}"
                yield EstimationEdge(case, problem, q, qd, y, {off: False})


def _aligned() -> Iterator[EstimationEdge]:
    """Accelerations from torques, first and third axis of a gimbal (nearly) aligned."""
    for _, edge in edges(["gimbal"]):
        torques = sensors.all_joint_torques(edge.robot, std=0.01)
        untouched = sensors.zero_external_wrench_except(edge.robot)
        gyros = [sensors.JointAcceleration("outer/acc", "outer", std=10.0)]
        for what, more in (("torques", []), ("torques and one acceleration", gyros)):
            layout = sensors.Layout(edge.robot, [*torques, *untouched, *more])
            problem = problems.Estimation(edge.robot, layout)
            name = f"{edge.name}, {what}"
            yield EstimationEdge(name, problem, edge.q, edge.qd, _readings(layout))


def _generous(robot: KinematicTree, ratio: float = 1.0) -> sensors.Layout:
    """Torques, accelerations and a force-torque sensor, the end touched; noise by a ratio."""
    joints = robot.joint_names
    return sensors.Layout(
        robot,
        [
            *sensors.all_joint_torques(robot, std=0.1 * ratio),
            *sensors.all_joint_accelerations(robot, std=0.1),
            *sensors.zero_external_wrench_except(robot, [robot.body_names[-1]]),
            sensors.ForceTorque("base_wrench", joints[0], std=0.5),
            sensors.ForceTorque("mid_wrench", joints[len(joints) // 2], std=0.5 / ratio),
        ],
    )


def _noise() -> Iterator[EstimationEdge]:
    robot = dynsys.synthetic.chain(6)
    q, qd = robot.random_configuration(4), np.random.default_rng(4).normal(size=6)
    for ratio in RATIOS:
        problem = problems.Estimation(robot, _generous(robot, ratio))
        y = _readings(problem.layout)
        yield EstimationEdge(f"noise by {ratio:g}", problem, q, qd, y)
        folded = np.zeros(6)
        yield EstimationEdge(f"noise by {ratio:g}, q = 0", problem, folded, qd, y)
    problem = problems.Estimation(robot, _generous(robot))
    y = _readings(problem.layout)
    for size in (1e-320, 1e-160, 1e100, 1e200, 1e307):
        yield EstimationEdge(f"readings by {size:g}", problem, q, qd, size * y)
    for speed in (0.0, 1e-160, 1e8, 1e80, 1e160):
        yield EstimationEdge(f"estimation, velocities by {speed:g}", problem, q, speed * qd, y)


def _missing() -> Iterator[EstimationEdge]:
    """Readings that are not there, sensors switched off, one after the other."""
    robot = dynsys.synthetic.random_tree(6, 2)
    problem = problems.Estimation(robot, _generous(robot))
    q, qd = robot.random_configuration(5), np.random.default_rng(5).normal(size=robot.nv)
    y = _readings(problem.layout)
    noisy = np.flatnonzero(problem.layout.std > 0)
    rng = np.random.default_rng(6)
    for count in (1, 3, 6, 9, 12, 15, len(noisy)):
        gone = y.copy()
        gone[rng.permutation(noisy)[:count]] = np.nan
        yield EstimationEdge(f"{count} readings missing", problem, q, qd, gone)
    for name in problem.layout.names:
        yield EstimationEdge(f"without {name}", problem, q, qd, y, {name: False})
    everything = dict.fromkeys(problem.layout.names, False)
    yield EstimationEdge("without any sensor", problem, q, qd, y, everything)


ESTIMATION_FAMILIES: dict[str, Callable[[], Iterator[EstimationEdge]]] = {
    "feet": _feet,
    "biped": _biped,
    "aligned": _aligned,
    "noise": _noise,
    "missing": _missing,
}
